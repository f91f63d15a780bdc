package trouble

// Config returns the outcome of a store's reads of the network config. first says
// that no config is known yet, so that the node waits for one.
func Config(first bool) Outcome {
	if first {
		return Outcome{Failed: "Waiting for the network config", EachReason: true}
	}
	return Outcome{Failed: "Network config unusable; keeping the previous one", Works: "Network config usable again", EachReason: true}
}

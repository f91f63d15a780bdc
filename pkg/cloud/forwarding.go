package cloud

// Forwarding is the setting of a cloud that lets an instance send and receive packets whose
// addresses are not its own.
type Forwarding struct {
	// Setting is the cloud's name of it, like "the source/destination check".
	Setting string
	// On is set if the setting is on at an instance that forwards.
	On bool
}

// Value returns the setting's value at an instance that forwards, or at one that does not.
func (f Forwarding) Value(forwards bool) string {
	if forwards == f.On {
		return "on"
	}
	return "off"
}

// Is describes the setting at an instance, like "IP forwarding is on".
func (f Forwarding) Is(forwards bool) string { return f.Setting + " is " + f.Value(forwards) }

// Switch describes how the program lets an instance forward, after the verb "switch" or
// "switching", like "on IP forwarding".
func (f Forwarding) Switch() string { return f.Value(true) + " " + f.Setting }

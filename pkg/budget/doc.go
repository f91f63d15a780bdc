// Package budget bounds what it costs to restore what other programs keep changing,
// and detects such a fight.
//
// A Pool holds the processor time that healing may take in the whole daemon. While it
// holds some, every wrong key is restored at once. While it is empty, each key still
// gets a turn every second, and the keys on which most depends come first.
package budget

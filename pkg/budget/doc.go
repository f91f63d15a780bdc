// Package budget bounds what it costs to restore what other programs keep
// changing, and tells such a fight from an accident.
//
// A Pool holds the processor time that healing may take in the whole daemon.
// While there is some, whatever is wrong is restored at once. Without, each key
// still gets a turn a second, and what carries most comes first. Nothing is ever
// left alone: a wrong key waits, at the longest, for its next turn.
package budget

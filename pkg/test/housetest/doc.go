// Package housetest holds the rules of the house that a compiler does not know: which
// room may import which, and how code and tests are kept. It has tests only. Each
// rule is a function of files, so its own test can pass it a house that breaks it.
package housetest

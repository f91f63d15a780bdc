// Package page holds what the status pages of all programs share: escaped markup, the
// frame of a page with its verdict, reasons, checks and facts, the style, and words for
// numbers and times. A page needs no script, and its browser loads nothing.
package page

package main

import (
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
)

// line is a line of the program's input or output: pairs as in a form that a browser sends.
type line struct{ url.Values }

var output sync.Mutex

func newLine(event string) line {
	return line{url.Values{"event": {event}}}
}

func (l line) number(name string, otherwise int) int {
	if n, err := strconv.Atoi(l.Get(name)); err == nil {
		return n
	}
	return otherwise
}

// beginningWith are the pairs of this prefix, without it.
func (l line) beginningWith(prefix string) map[string]string {
	found := map[string]string{}
	for name := range l.Values {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			found[rest] = l.Get(name)
		}
	}
	return found
}

// print writes the line in one piece.
func (l line) print() {
	output.Lock()
	defer output.Unlock()
	os.Stdout.WriteString(l.Encode() + "\n")
}

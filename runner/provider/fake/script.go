package fake

import (
	"bytes"
	"strconv"
	"strings"
)

const faultOpen, faultClose = "[[fault:", "]]"

// scripted is one marker of a prompt.
type scripted struct {
	name, arg string
	times     uint64 // 0 = every call
}

// nextMarker finds the first marker in b and what follows it.
func nextMarker(b []byte) (m scripted, rest []byte, ok bool) {
	_, b, ok = bytes.Cut(b, []byte(faultOpen))
	if !ok {
		return m, nil, false
	}
	text, rest, ok := bytes.Cut(b, []byte(faultClose))
	if !ok {
		return m, nil, false
	}
	m.name = strings.TrimSpace(string(text))
	if i := strings.LastIndexByte(m.name, 'x'); i > 0 {
		if n, err := strconv.ParseUint(m.name[i+1:], 10, 32); err == nil {
			m.name, m.times = strings.TrimSpace(m.name[:i]), n
		}
	}
	m.name, m.arg, _ = strings.Cut(m.name, "=")
	return m, rest, true
}

// scriptedFault returns the marker that the nth call (from 1) with this body plays.
func scriptedFault(body []byte, n uint64) (scripted, bool) {
	for m, rest, ok := nextMarker(body); ok; m, rest, ok = nextMarker(rest) {
		if m.times == 0 || n <= m.times {
			return m, true
		}
		n -= m.times
	}
	return scripted{}, false
}

// lookup finds a marker's row, or makes one for a status; false if its argument is missing, unknown or one too many.
func lookup(m scripted) (fault, bool) {
	for _, f := range faults {
		if f.name != m.name {
			continue
		}
		switch {
		case m.arg == "":
			return f, f.arg == "" || f.optional()
		case f.name == "quota":
			_, known := spendForm(m.arg)
			return f, known
		case f.name == "daily":
			_, err := ParseStyle(m.arg)
			return f, err == nil
		}
		return f, f.arg != ""
	}
	status, err := strconv.Atoi(m.name)
	if err != nil || status < 400 || status > 599 || m.arg != "" {
		return fault{}, false
	}
	return failing(m.name, status), true
}

// failing is the fault of answering with this status.
func failing(name string, status int) fault {
	return fault{name: name, play: func(_ *Server, c *call, r *reply, _ string) { *r = c.statusFailure(status) }}
}

// drawn is the fault that the settings have in store for an admitted call that names none; the zero value for none.
// Called with the lock held.
func (s *Server) drawn(c *call) scripted {
	g := c.group
	draw := mix(s.cfg.Seed^c.bodyID, c.attempt)
	switch {
	case g.failed < g.cfg.FailFirst:
		g.failed++
		return scripted{name: "fail_first", arg: strconv.Itoa(g.cfg.FailStatus)}
	case g.cfg.ErrorRate > 0 && unit(draw) < g.cfg.ErrorRate && (g.cfg.ErrorMax == 0 || g.errors < g.cfg.ErrorMax):
		g.errors++
		return scripted{name: "error", arg: strconv.Itoa(g.cfg.ErrorStatus[mix(draw, 1)%uint64(len(g.cfg.ErrorStatus))])}
	case g.cfg.LostRate > 0 && unit(mix(draw, 2)) < g.cfg.LostRate:
		return scripted{name: "lost"}
	}
	return scripted{}
}

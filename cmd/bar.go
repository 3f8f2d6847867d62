package cmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/limit"
)

// barEvery is the least time between two drawings of the bar.
const barEvery = 100 * time.Millisecond

// bar draws one line on a terminal. The cursor rests at its start: a terminal
// that has become narrower breaks the line in two, and what is erased from there
// on is all of it.
type bar struct {
	w     io.Writer
	graph *progressbar.ProgressBar // draws into memory
	width int                      // columns that it was made for
	drawn bool
}

// eraseLine clears the line and what of it a narrower terminal has moved below.
const eraseLine = "\r\x1b[J"

// defaultWidth is that of a terminal that does not tell its own.
const defaultWidth = 80

// graphLeast is the terminal's width from which on there is room for a graph of
// graphWidth columns; narrower ones get the percentage alone.
const graphLeast, graphWidth = 60, 10

// draw puts a run's figures over the line before; columns 0 = not known.
func (b *bar) draw(s runner.Progress, columns int) {
	if columns <= 0 {
		columns = defaultWidth
	}
	if b.graph == nil || b.width != columns {
		b.width, b.graph = columns, newGraph(s, columns)
	}
	room, head := columns-1, len("100% ") // a full line would break on some terminals
	if columns >= graphLeast {
		head += graphWidth + len("[] ")
	}
	_ = b.graph.Set(s.Done) // cannot fail in memory
	b.graph.Describe(fit(parts(s), room-head))
	text := strings.Join(strings.Fields(b.graph.String()), " ")
	fmt.Fprintf(b.w, "\r%s\x1b[J\r", text[:min(len(text), room)])
	b.drawn = true
}

func newGraph(s runner.Progress, columns int) *progressbar.ProgressBar {
	theme, width := progressbar.ThemeASCII, graphWidth
	if columns < graphLeast {
		theme, width = progressbar.Theme{}, 0
	}
	return progressbar.NewOptions(max(1, s.Total),
		progressbar.OptionSetWriter(io.Discard), progressbar.OptionSetWidth(width), progressbar.OptionSetTheme(theme),
		progressbar.OptionShowDescriptionAtLineEnd(), progressbar.OptionThrottle(0),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false))
}

// erase leaves an empty line.
func (b *bar) erase() {
	if b.drawn {
		fmt.Fprint(b.w, eraseLine)
		b.drawn = false
	}
}

// part is one of the figures of a line of progress.
type part struct {
	long, short string // "" = there is none
	rank        int    // the lowest stays longest where there is little room
}

// parts are a run's figures in the order in which a line has them.
func parts(s runner.Progress) (all []part) {
	add := func(rank int, short, long string) { all = append(all, part{long, short, rank}) }
	done := grouped(int64(s.Done)) + "/" + grouped(int64(s.Total))
	add(1, done, done+" done")
	if s.Rate > 0 {
		add(9, "", rate(s.Rate)+" a minute")
	}
	add(4, "", fmt.Sprintf("%s in flight", grouped(int64(s.InFlight))))
	if s.Delayed > 0 {
		add(7, "", fmt.Sprintf("%s delayed", grouped(int64(s.Delayed))))
	}
	if s.Dead > 0 {
		add(3, "", fmt.Sprintf("%s failed", grouped(int64(s.Dead))))
	}
	if s.CacheHits > 0 {
		add(10, "", grouped(s.CacheHits)+" kept answers")
	}
	used := func(rank int, name string, n, most int64) {
		switch {
		case most > 0:
			add(rank, "", fmt.Sprintf("%s/%s %s", grouped(n), grouped(most), name))
		case n > 0:
			add(rank, "", fmt.Sprintf("%s %s", grouped(n), name))
		}
	}
	used(5, "rpm", s.RequestsMinute, s.RPM)
	used(6, "tpm", s.TokensMinute, s.TPM)
	if s.Cost != "" {
		add(8, "", "cost "+s.Cost)
	}
	if left := s.Remaining.Round(time.Second); left > 0 {
		add(2, left.String()+" left", "about "+left.String()+" left")
	}
	if s.Pressure != "" {
		add(2, "pressure "+s.Pressure, "pressure: "+s.Pressure+": "+s.Pressed)
	}
	if s.HeldBack > 0 {
		add(7, "", grouped(int64(s.HeldBack))+" held back")
	}
	if s.Limiting != "" {
		short, long := limiting(s)
		add(0, short, long)
	}
	return all
}

// limiting says what holds the run back now, and until when if that is more than
// a moment away.
func limiting(s runner.Progress) (short, long string) {
	switch why := limit.Reason(s.Limiting); why {
	case limit.AfterRefusal:
		short, long = "paused", "paused after a refusal"
	case limit.AfterHint:
		short, long = "paused", "paused as the provider asked"
	default:
		short, long = clean(s.Limiting), "limited by "+clean(s.Limiting)
	}
	if s.LimitedAt != "" {
		long += " (" + clean(s.LimitedAt) + ")"
	}
	if now := time.Now(); !s.Until.IsZero() && s.Until.Sub(now) > time.Second {
		until := " until " + runner.Clock(now, s.Until)
		short, long = short+until, long+until
	}
	return short, long
}

// fit joins what there is room for: in the long form, else the last in rank are
// shortened, then left out. Of the first in rank as much as fits stays.
func fit(all []part, room int) string {
	all = slices.Clone(all)
	byRank := make([]int, len(all))
	for i := range byRank {
		byRank[i] = i
	}
	slices.SortFunc(byRank, func(i, j int) int { return all[j].rank - all[i].rank })
	for _, change := range []func(*part){
		func(p *part) {
			if p.short != "" {
				p.long = p.short
			}
		},
		func(p *part) {
			if p.rank > 0 {
				p.long = ""
			}
		},
	} {
		for _, i := range byRank {
			if text := joined(all); len(text) <= room {
				return text
			}
			change(&all[i])
		}
	}
	text := joined(all)
	return text[:max(0, min(len(text), room))]
}

func joined(all []part) string {
	var texts []string
	for _, p := range all {
		if p.long != "" {
			texts = append(texts, p.long)
		}
	}
	return strings.Join(texts, ", ")
}

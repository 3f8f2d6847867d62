package runner

import (
	"fmt"
	"strings"
	"time"

	"github.com/llmbatch/llmbatch/runner/route"
)

// feel goes over to the level that the measures ask for and says whether it is
// another. What waits is then held or released, and charged anew.
func (s *scheduler) feel(now time.Time, m route.Measures) bool {
	if !s.press.judge(now, m) {
		return false
	}
	for _, l := range s.lanes {
		held := l.release() // they are the older ones
		for _, j := range append(held, l.ready.Drain()...) {
			if s.substitute(j) {
				s.size -= len(j.rec.Body)
				s.tell(now, j, Event{What: Left})
				continue
			}
			l.enqueue(j)
		}
	}
	if s.watch != nil {
		s.watch(Event{What: Pressed, At: now, Level: s.press.level, Reason: s.press.reason})
	}
	return true
}

// heldBack is how many operations wait until the pressure is less.
func (s *scheduler) heldBack() int {
	n := len(s.parked)
	for _, l := range s.lanes {
		n += len(l.held)
	}
	return n
}

// oldest is how long the operation has been ready that has been so for longest.
func (s *scheduler) oldest(now time.Time) (wait time.Duration) {
	for _, l := range s.lanes {
		for j := range l.ready.Heads {
			wait = max(wait, now.Sub(j.due))
		}
	}
	return wait
}

// saturation is the share in use of the minute's limit that is fullest.
func (s *scheduler) saturation(now time.Time) (share float64) {
	for _, l := range s.limits {
		for _, u := range l.State(now).Uses {
			most := float64(u.Limit)
			if most == 0 {
				most = u.Pace
			}
			if !strings.HasSuffix(u.Name, "d") { // a day's limit fills with nothing amiss
				share = max(share, float64(u.Used)/most)
			}
		}
	}
	return share
}

// tripCalls is how many of the latest calls trip goes by.
const tripCalls = 20

// took notes how long a call with its whole output took.
func (s *scheduler) took(j *job, call time.Duration) {
	switch {
	case j.gave.cap > 0 || j.small():
	case s.trip == 0:
		s.trip = call.Seconds()
	default:
		s.trip += (call.Seconds() - s.trip) / tripCalls
	}
}

// fixing bounds the fixed answers that are on their way to the disk.
const fixing = 256

// fixed takes a job that the fixed answer stands for, of the lowest priority
// there is; nil if none does now.
func (s *scheduler) fixed(now time.Time) *job {
	if s.press.acts.FixedAnswer == "" || s.stop != nil || s.storing >= fixing {
		return nil
	}
	suits := func(j *job) bool { return s.press.fixable(j) && !s.doubtful(now, j) }
	for _, l := range s.lanes {
		j, ok := l.ready.TakeLeast(spillDepth, suits)
		if !ok {
			j, ok = l.delayed.Take(suits)
		}
		if ok {
			s.size -= len(j.rec.Body)
			s.tell(now, j, Event{What: Fixed})
			return j
		}
	}
	return nil
}

// degrade lets the smaller model take a job ahead of the lane, if it may and
// can at once.
func (s *scheduler) degrade(now time.Time, l *lane) *job {
	if s.press.level == route.None || !s.guarded() {
		return nil
	}
	j, _ := s.spill(now, l)
	return j
}

// press looks at the pressure anew and tells of another level.
func (d *dispatcher) press(now time.Time) {
	p := &d.sched.press
	if p.steps == nil || d.sched.stop != nil {
		return
	}
	had := p.acts
	d.felt = d.unsent()
	if !d.sched.feel(now, d.measures(now)) {
		return
	}
	if p.level == route.None {
		d.Notice("pressure: none: nothing gives way any more")
	} else {
		d.Notice(fmt.Sprintf("pressure: %s: %s", p.level, p.reason))
	}
	// What is held by fewer rules may go: it is read again.
	d.again = d.again || had.HoldLow && !p.acts.HoldLow || len(p.acts.HoldTenants) < len(had.HoldTenants)
}

// refeed reads what was parked once more, when it may go and all else is read.
func (d *dispatcher) refeed() {
	if !d.again || d.fed != nil || d.sched.stop != nil {
		return
	}
	d.again = false
	if entries := d.sched.parked; len(entries) > 0 {
		d.sched.parked = nil
		d.fed = d.read(entries)
	}
}

// park leaves an operation that is held to be read again later: there may be
// more of them than the memory has room for.
func (d *dispatcher) park(j *job) bool {
	if j.refuse != nil || j.kept != nil || !d.sched.press.holds(j) {
		return false
	}
	d.sched.parked = append(d.sched.parked, j.entry)
	return true
}

// fix gives the fixed answer for as long as the pressure asks for it. It waits
// for the queue to fill, so that it does not meet the first to come.
func (d *dispatcher) fix(now time.Time) {
	for d.fed == nil || !d.sched.wants() {
		j := d.sched.fixed(now)
		if j == nil {
			return
		}
		text := d.sched.press.acts.FixedAnswer
		d.store(j, func() { d.answer(j, text) })
		d.relax(now)
	}
}

// relax looks at the pressure between two seconds once a hundredth of what was
// left is gone: it falls fast where much gives way, and no more shall give way
// than has to.
func (d *dispatcher) relax(now time.Time) {
	if d.sched.press.level > route.None && d.unsent() < d.felt-d.felt/100 {
		d.press(now)
	}
}

// remain says what becomes of operations that are held when there is nothing
// else left: true = they may go, or will once limits are less full. Under a
// deadline that is too near for them they stay pending.
func (d *dispatcher) remain(now time.Time) bool {
	if d.sched.stop != nil || d.sched.heldBack() == 0 {
		return false
	}
	d.press(now)
	p := &d.sched.press
	left := d.sched.heldBack()
	if p.level == route.None || !d.sched.idle() || d.again {
		return true
	}
	m := d.measures(now)
	m.QueueWait, m.Saturation = 0, 0
	level, reason := p.steps.Level(m, p.level)
	if acts := p.steps.At(level); !acts.HoldLow && len(acts.HoldTenants) == 0 {
		return true
	}
	d.sched.stop = &Stop{
		Kind:   StopBound,
		Reason: fmt.Sprintf("%s held back, and the pressure is %s: %s", are(left), level, reason),
		Hint:   "run the same command again with a later --deadline, or without the hold in the config file",
	}
	return false
}

func are(n int) string {
	if n == 1 {
		return "1 operation is"
	}
	return Count(int64(n), "operation") + " are"
}

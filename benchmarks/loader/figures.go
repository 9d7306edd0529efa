package main

import (
	"math/bits"
	"sync"
	"time"
)

// figures are what a work has found; each is left out where it has no meaning.
type figures struct {
	Sent             int64            `json:"sent"`
	Received         int64            `json:"received"`
	Acknowledged     int64            `json:"acknowledged"`
	Early            int64            `json:"early"`
	Errors           map[string]int64 `json:"errors"`
	Seconds          float64          `json:"seconds"`
	Latency          *percentiles     `json:"latency_us,omitempty"`
	Refused          *percentiles     `json:"refused_us,omitempty"`
	ScheduleLag      *percentiles     `json:"schedule_lag_us,omitempty"`
	LoaderCPUSeconds float64          `json:"loader_cpu_s"`
}

type percentiles struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
}

// histogram counts times of 1 ns to 292 years in buckets of less than 1 % of their value.
type histogram struct {
	counts [64 << subBits]int64
	total  int64
	max    time.Duration
}

const subBits = 7

func (h *histogram) add(value time.Duration) {
	value = max(value, 0)
	h.counts[bucket(uint64(value))]++
	h.total++
	h.max = max(h.max, value)
}

func (h *histogram) merge(other *histogram) {
	for index, count := range other.counts {
		h.counts[index] += count
	}
	h.total += other.total
	h.max = max(h.max, other.max)
}

func bucket(value uint64) int {
	if value < 1<<subBits {
		return int(value)
	}
	shift := bits.Len64(value) - subBits - 1
	return (shift+1)<<subBits | int(value>>shift)&(1<<subBits-1)
}

// upper is the largest value of a bucket.
func upper(bucket int) time.Duration {
	if bucket < 1<<subBits {
		return time.Duration(bucket)
	}
	shift := bucket>>subBits - 1
	return time.Duration((uint64(bucket&(1<<subBits-1)|1<<subBits)+1)<<shift - 1)
}

func (h *histogram) at(share float64) time.Duration {
	wanted := int64(share * float64(h.total))
	var passed int64
	for index, count := range h.counts {
		if passed += count; passed > wanted {
			return min(upper(index), h.max)
		}
	}
	return h.max
}

func (h *histogram) percentiles() *percentiles {
	if h.total == 0 {
		return nil
	}
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	return &percentiles{h.total, us(h.at(.5)), us(h.at(.9)), us(h.at(.99)), us(h.at(.999)), us(h.max)}
}

// tally is what one goroutine counts, or many with its lock.
type tally struct {
	sync.Mutex
	sent, received, acknowledged, early int64
	errors                              map[string]int64
	latency, refused, lag               histogram
}

func (t *tally) fail(code string) {
	if t.errors == nil {
		t.errors = map[string]int64{}
	}
	t.errors[code]++
}

// summed adds up what goroutines counted each for itself.
func summed(all []*tally, took time.Duration) *figures {
	sum := &tally{}
	errors := map[string]int64{}
	for _, each := range all {
		each.Lock()
		sum.sent += each.sent
		sum.received += each.received
		sum.acknowledged += each.acknowledged
		sum.early += each.early
		for code, count := range each.errors {
			errors[code] += count
		}
		sum.latency.merge(&each.latency)
		sum.refused.merge(&each.refused)
		sum.lag.merge(&each.lag)
		each.Unlock()
	}
	return &figures{
		Sent: sum.sent, Received: sum.received, Acknowledged: sum.acknowledged, Early: sum.early,
		Errors: errors, Seconds: took.Seconds(),
		Latency: sum.latency.percentiles(), Refused: sum.refused.percentiles(), ScheduleLag: sum.lag.percentiles(),
	}
}

package main

import (
	"testing"
	"time"
)

func TestABucketIsWithinOnePercentOfItsValues(t *testing.T) {
	for value := uint64(1); value < 1<<40; value = value*9/8 + 1 {
		top := uint64(upper(bucket(value)))
		if top < value || float64(top-value) > 0.01*float64(value) {
			t.Fatalf("%d is shown as %d", value, top)
		}
	}
}

func TestPercentilesOfMergedHistogramsAreThoseOfAllValues(t *testing.T) {
	var even, odd histogram
	for us := 1; us <= 10_000; us++ {
		h := &odd
		if us%2 == 0 {
			h = &even
		}
		h.add(time.Duration(us) * time.Microsecond)
	}
	even.merge(&odd)
	found := even.percentiles()
	for name, pair := range map[string][2]float64{
		"p50": {found.P50, 5000}, "p90": {found.P90, 9000}, "p99": {found.P99, 9900}, "p999": {found.P999, 9990},
	} {
		if pair[0] < pair[1]*0.99 || pair[0] > pair[1]*1.01 {
			t.Errorf("%s is %f, not %f", name, pair[0], pair[1])
		}
	}
	if found.Count != 10_000 || found.Max != 10_000 {
		t.Errorf("%d values, the largest %f", found.Count, found.Max)
	}
}

func TestNothingHasNoPercentiles(t *testing.T) {
	if found := (&histogram{}).percentiles(); found != nil {
		t.Errorf("%v", found)
	}
}

package ipam

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

func TestForecastFollowsSteadyGrowth(t *testing.T) {
	const noon = day / 2
	now := time.Unix(2_000_000_000, 0)
	ago := func(ages ...time.Duration) (created []int64) {
		for _, age := range ages {
			created = append(created, now.Add(-age).Unix())
		}
		return created
	}
	// each returns n Nodes, the first after age, one each interval.
	each := func(n int, age, interval time.Duration) (created []int64) {
		for i := range n {
			created = append(created, ago(age-time.Duration(i)*interval)...)
		}
		return created
	}
	for name, c := range map[string]struct {
		created []int64
		left    uint64
		perDay  float64
		days    int // until the pool is full; -1 if that is not in sight
	}{
		"no Node":                       {nil, 10, 0, -1},
		"one Node a day for a year":     {each(365, 365*day, day), 100, 1, 100},
		"one Node a day for eight days": {each(8, 8*day, day), 8, 1, 8},
		"full already":                  {each(365, 365*day, day), 0, 1, 0},
		"a thousand at once, long ago":  {each(1000, 90*day, time.Minute), 10, 0, -1},
		"a thousand at once, last week": {append(ago(90*day), each(1000, 7*day, time.Second)...), 10, 0, -1},
		"all replaced within two days":  {each(2000, 2*day, 2*day/2000), 1000, 1000, 1},
		"all of the last hours":         {each(1000, 23*time.Hour, time.Minute), 10, 0, -1},
		"too slow to be in sight":       {each(50, 350*day, 7*day), 1000, 1.0 / 7, -1},
		"created in the future":         {ago(-time.Hour, -1000*day), 10, 0, -1},
		"before all time and after it":  {[]int64{math.MinInt64, math.MaxInt64, 0}, 10, 0, -1},
		"a week of four without any":    {slices.Concat(ago(60*day), each(7, 28*day-noon, day), each(14, 14*day-noon, day)), 10, 1, 10},
		"two weeks of four without any": {slices.Concat(ago(60*day), each(7, 28*day-noon, day), each(7, 7*day-noon, day)), 10, 0, -1},
	} {
		slices.Sort(c.created)
		f := forecast(c.created, c.left, now)
		want := time.Time{}
		if c.days >= 0 {
			want = now.Add(time.Duration(c.days) * day)
		}
		if !f.Full.Equal(want) || math.Abs(f.PerDay-c.perDay) > 0.2*c.perDay {
			t.Errorf("%s: %+v, want %v a day, full at %v", name, f, c.perDay, want)
		}
	}
}

func TestUsageShowsFragmentsAndForecast(t *testing.T) {
	now := start.Add(100 * day)
	b := bookOf(t, pool4("a", 24, "10.0.0.0/16"))
	for i := range 64 {
		n := Node{Name: fmt.Sprint(i), CIDRs: []string{fmt.Sprintf("10.0.%d.0/25", i)}, Created: now.Add(-time.Duration(i) * day).Unix()}
		b.Set(n, now)
	}
	u := b.Usage(now)[0]
	if u.Total != 256 || u.Used != 64 || u.Free != 192 || u.Largest != 17 || u.Nodes != 64 {
		t.Errorf("%+v", u)
	}
	// 64 halves of a block are free, beside 192 blocks.
	if want := 32.0 / 224; math.Abs(u.Fragmentation-want) > 1e-9 {
		t.Errorf("fragmentation %v, want %v", u.Fragmentation, want)
	}
	if days := u.Forecast.Full.Sub(now) / day; days < 190 || days > 224 {
		t.Errorf("full in %d days: %+v", days, u.Forecast)
	}
}

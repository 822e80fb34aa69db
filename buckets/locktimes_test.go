//go:build locktimes && linux

package buckets

import (
	"math"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// mutex measures how long it is held, in processor time. Other programs on the machine may stop the goroutine that
// holds it, so wall time would be too long.
type mutex struct {
	sync.Mutex
	since   time.Duration
	longest time.Duration
	counts  [512]int // how often it was held, by the logarithm of the duration
}

const countsPerDoubling = 8

func (m *mutex) Lock() {
	m.Mutex.Lock()
	runtime.LockOSThread() // because the time of this thread is measured
	m.since = threadTime()
}

func (m *mutex) Unlock() {
	held := threadTime() - m.since
	runtime.UnlockOSThread()
	m.longest = max(m.longest, held)
	m.counts[int(countsPerDoubling*math.Log2(float64(max(held, 1))))]++
	m.Mutex.Unlock()
}

// held returns the 99th percentile and the maximum of the durations for which the mutex was held since the last call.
func (m *mutex) held() (p99, longest time.Duration) {
	m.Mutex.Lock()
	defer m.Mutex.Unlock()
	all := 0
	for _, n := range m.counts {
		all += n
	}
	upTo := 0
	for i, n := range m.counts {
		if upTo += n; p99 == 0 && upTo*100 >= all*99 {
			p99 = time.Duration(math.Exp2(float64(i+1) / countsPerDoubling))
		}
	}
	longest = m.longest
	m.counts, m.longest = [512]int{}, 0
	return p99, longest
}

// threadTime returns the processor time that the thread has used.
func threadTime() time.Duration {
	const ofThread = 3 // CLOCK_THREAD_CPUTIME_ID
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, ofThread, uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		panic(errno)
	}
	return time.Duration(t.Nano())
}

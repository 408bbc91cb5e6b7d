// SPDX-License-Identifier: MIT

// redsync as a peer of the interop tests; ../interop.h has the protocol.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

const (
	poll       = 20 * time.Millisecond
	countLease = 4 * time.Second
	countWait  = 60 * time.Second
)

var (
	library  *redsync.Redsync
	printing sync.Mutex
)

// An actor does one thing after another; its holds are its own.
type actor struct {
	id     string
	orders chan []string
	holds  map[string]*redsync.Mutex
}

// A server that is down is what a majority is for.
type silent struct{}

func (silent) Printf(context.Context, string, ...interface{}) {}

func open(url string) {
	goredislib.SetLogger(silent{})
	var pools []redis.Pool
	for _, host := range strings.Split(strings.SplitN(url, "://", 2)[1], ",") {
		options := &goredislib.Options{Addr: host, MaxRetries: -1, DialerRetries: 1}
		pools = append(pools, goredis.NewPool(goredislib.NewClient(options)))
	}
	library = redsync.New(pools...)
}

func acquire(name string, lease, wait time.Duration) (*redsync.Mutex, error) {
	mutex := library.NewMutex(name, redsync.WithExpiry(lease),
		redsync.WithTries(int(wait/poll)+1), redsync.WithRetryDelay(poll))
	return mutex, mutex.Lock()
}

func release(mutex *redsync.Mutex) string {
	if done, err := mutex.Unlock(); err != nil || !done {
		return "lost"
	}
	return "ok"
}

func (a *actor) lock(name string, lease, wait time.Duration) string {
	mutex, err := acquire(name, lease, wait)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		return "busy"
	}
	if err != nil {
		return "error " + err.Error()
	}
	a.holds[name] = mutex
	return "ok 0"
}

func count(name string, rounds int, path string) string {
	for i := 0; i < rounds; i++ {
		mutex, err := acquire(name, countLease, countWait)
		if err != nil {
			return "error " + err.Error()
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return "error " + err.Error()
		}
		number, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		time.Sleep(time.Millisecond)
		os.WriteFile(path, []byte(fmt.Sprintf("%d\n", number+1)), 0o600)
		if release(mutex) != "ok" {
			return "error the lock was lost"
		}
	}
	return fmt.Sprintf("done %d", rounds)
}

func milliseconds(word string) time.Duration {
	number, _ := strconv.Atoi(word)
	return time.Duration(number) * time.Millisecond
}

func (a *actor) obey(words []string) string {
	switch words[0] {
	case "open":
		open(words[1])
		return "ok"
	case "lock":
		return a.lock(words[2], milliseconds(words[3]), milliseconds(words[4]))
	case "unlock":
		return release(a.holds[words[2]])
	case "held":
		if valid, _ := a.holds[words[2]].Valid(); valid {
			return "yes"
		}
		return "no"
	case "count":
		rounds, _ := strconv.Atoi(words[3])
		return count(words[2], rounds, words[4])
	}
	return "error unknown verb"
}

func (a *actor) run() {
	for words := range a.orders {
		text := strings.ReplaceAll(a.obey(words), "\n", " ")
		printing.Lock()
		fmt.Println(a.id, text)
		printing.Unlock()
	}
}

func main() {
	actors := map[string]*actor{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if words[1] == "quit" {
			return
		}
		a := actors[words[0]]
		if a == nil {
			a = &actor{words[0], make(chan []string, 16), map[string]*redsync.Mutex{}}
			actors[words[0]] = a
			go a.run()
		}
		a.orders <- words[1:]
	}
}

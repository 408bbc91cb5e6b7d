// SPDX-License-Identifier: MIT

// Go's clients of etcd and Consul as a peer of the interop tests; ../interop.h has the
// protocol. This file has the protocol, etcd.go and consul.go have the locks.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// what a lease of 0 in "lock" asks for, as short as the servers allow; it is kept
	ttl       = 2 * time.Second
	countWait = 60 * time.Second
)

var errBusy = errors.New("busy")

// A hold is a lock that was had.
type hold interface {
	token() uint64
	held() bool
	release() error
}

// A store is a client; a wait below 0 is for ever. errBusy: it was not to be had in time.
type store interface {
	lock(value, kind, name string, wait time.Duration) (hold, error)
	leader(name string) (string, error)
}

var (
	library  store
	printing sync.Mutex
)

// An actor does one thing after another; its holds are its own.
type actor struct {
	id     string
	orders chan []string
	holds  map[string]hold
}

func open(url string) (err error) {
	scheme, hosts, _ := strings.Cut(url, "://")
	if scheme == "etcd" {
		library, err = openEtcd(hosts)
	} else {
		library, err = openConsul(hosts)
	}
	return err
}

func answer(done string, err error) string {
	if errors.Is(err, errBusy) {
		return "busy"
	}
	if err != nil {
		return "error " + err.Error()
	}
	return done
}

func (a *actor) lock(kind, name string, wait time.Duration) string {
	got, err := library.lock("actor"+a.id, kind, name, wait)
	if err != nil {
		return answer("", err)
	}
	a.holds[name] = got
	return fmt.Sprintf("ok %d", got.token())
}

func (a *actor) unlock(name string) string {
	got := a.holds[name]
	was := got.held()
	if err := got.release(); err != nil || !was {
		return "lost"
	}
	return "ok"
}

func addOne(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	number, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	time.Sleep(time.Millisecond)
	return os.WriteFile(path, []byte(fmt.Sprintf("%d\n", number+1)), 0o600)
}

func (a *actor) count(kind, name string, rounds int, path string) string {
	for i := 0; i < rounds; i++ {
		got, err := library.lock("actor"+a.id, kind, name, countWait)
		if err == nil {
			err = addOne(path)
		}
		if err == nil {
			err = got.release()
		}
		if err != nil {
			return answer("", err)
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
		return answer("ok", open(words[1]))
	case "lock":
		return a.lock(words[1], words[2], milliseconds(words[4]))
	case "unlock":
		return a.unlock(words[2])
	case "held":
		if a.holds[words[2]].held() {
			return "yes"
		}
		return "no"
	case "leader":
		leader, err := library.leader(words[1])
		return answer("leader "+leader, err)
	case "count":
		rounds, _ := strconv.Atoi(words[3])
		return a.count(words[1], words[2], rounds, words[4])
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
			a = &actor{words[0], make(chan []string, 16), map[string]hold{}}
			actors[words[0]] = a
			go a.run()
		}
		a.orders <- words[1:]
	}
}

// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

type consulStore struct{ client *api.Client }

func openConsul(hosts string) (store, error) {
	client, err := api.NewClient(&api.Config{Address: hosts})
	return &consulStore{client}, err
}

// A consulHold has a session of its own; lost is closed when it ends.
type consulHold struct {
	end  func() error
	lost <-chan struct{}
}

func (h *consulHold) token() uint64  { return 0 }
func (h *consulHold) release() error { return h.end() }

func (h *consulHold) held() bool {
	select {
	case <-h.lost:
		return false
	default:
		return true
	}
}

// stop is closed after that time; at 0 the library is told to try only.
func stop(wait time.Duration) <-chan struct{} {
	ch := make(chan struct{})
	if wait > 0 {
		time.AfterFunc(wait, func() { close(ch) })
	}
	return ch
}

// waitTime is how long one question may last: the library does not give one up before. 0 is
// its own choice.
func waitTime(wait time.Duration) time.Duration {
	if wait < 0 {
		return 0
	}
	return min(max(wait, 100*time.Millisecond), api.DefaultLockWaitTime)
}

func (s *consulStore) lockKey(value, key string, wait time.Duration) (hold, error) {
	lock, err := s.client.LockOpts(&api.LockOptions{Key: key, Value: []byte(value),
		SessionTTL: ttl.String(), LockDelay: time.Millisecond,
		LockTryOnce: wait == 0, LockWaitTime: waitTime(wait)})
	if err != nil {
		return nil, err
	}
	lost, err := lock.Lock(stop(wait))
	if err != nil || lost == nil {
		return nil, err
	}
	return &consulHold{lock.Unlock, lost}, nil
}

func (s *consulStore) semaphore(value, name string, limit int, wait time.Duration) (hold, error) {
	semaphore, err := s.client.SemaphoreOpts(&api.SemaphoreOptions{Prefix: name,
		Limit: limit, Value: []byte(value), SessionTTL: ttl.String(),
		SemaphoreTryOnce: wait == 0, SemaphoreWaitTime: waitTime(wait)})
	if err != nil {
		return nil, err
	}
	lost, err := semaphore.Acquire(stop(wait))
	if err != nil || lost == nil {
		return nil, err
	}
	return &consulHold{semaphore.Release, lost}, nil
}

func (s *consulStore) lock(value, kind, name string, wait time.Duration) (hold, error) {
	var h hold
	var err error
	switch kind {
	case "mutex", "latch":
		h, err = s.lockKey(value, name+"/.lock", wait)
	case "key":
		h, err = s.lockKey(value, name, wait)
	default:
		limit := 0
		fmt.Sscanf(strings.TrimPrefix(kind, "sem"), "%d", &limit)
		h, err = s.semaphore(value, name, limit, wait)
	}
	if h == nil && err == nil {
		err = errBusy
	}
	return h, err
}

// leader reads what programs read to find a leader: the value of the key.
func (s *consulStore) leader(name string) (string, error) {
	pair, _, err := s.client.KV().Get(name+"/.lock", &api.QueryOptions{
		RequireConsistent: true})
	if err != nil {
		return "", err
	}
	if pair == nil || pair.Session == "" {
		return "", errors.New("nobody leads")
	}
	value, _, _ := strings.Cut(string(pair.Value), "\n")
	return value, nil
}

// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
	"go.uber.org/zap"
)

// dibs leaves room behind each revision, so that a leader's token can go up
const tokenRoom = 256

// the recipes cannot try: so long they wait for what is free
const tryTime = time.Second

type etcdStore struct{ client *clientv3.Client }

func openEtcd(hosts string) (store, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(hosts, ","),
		DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	return &etcdStore{client}, err
}

// An etcdHold has a session of its own, as if it were a process of its own.
type etcdHold struct {
	session *concurrency.Session
	end     func() error
	key     string
	rev     int64
}

func (h *etcdHold) token() uint64 { return uint64(h.rev) * tokenRoom }

func (h *etcdHold) held() bool {
	got, err := h.session.Client().Get(context.Background(), h.key)
	return err == nil && len(got.Kvs) == 1 && got.Kvs[0].CreateRevision == h.rev
}

func (h *etcdHold) release() error {
	err := h.end()
	if closed := h.session.Close(); err == nil {
		err = closed
	}
	return err
}

func limit(wait time.Duration) (context.Context, context.CancelFunc) {
	if wait < 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), wait)
}

func busy(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, concurrency.ErrLocked) {
		return errBusy
	}
	return err
}

func lockMutex(h *etcdHold, name string, wait time.Duration) error {
	mutex := concurrency.NewMutex(h.session, name)
	ctx, cancel := limit(wait)
	defer cancel()
	var err error
	if wait == 0 {
		err = mutex.TryLock(context.Background())
	} else {
		err = mutex.Lock(ctx)
	}
	h.key = mutex.Key()
	h.end = func() error { return mutex.Unlock(context.Background()) }
	return busy(err)
}

func campaign(h *etcdHold, value, name string, wait time.Duration) error {
	election := concurrency.NewElection(h.session, name)
	if wait == 0 {
		wait = tryTime
	}
	ctx, cancel := limit(wait)
	defer cancel()
	err := election.Campaign(ctx, value)
	h.key = election.Key()
	h.end = func() error { return election.Resign(context.Background()) }
	return busy(err)
}

// lockRW waits no longer than that by ending the session: there is no other way.
func lockRW(h *etcdHold, kind, name string, wait time.Duration) error {
	mutex := recipe.NewRWMutex(h.session, name)
	lock := map[string]func() error{"read": mutex.RLock, "write": mutex.Lock}[kind]
	h.end = map[string]func() error{"read": mutex.RUnlock, "write": mutex.Unlock}[kind]
	if wait == 0 {
		wait = tryTime
	}
	ctx, cancel := limit(wait)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- lock() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errBusy
	}
}

// find looks for the key that the session made: the recipes do not tell it.
func (h *etcdHold) find(name string) error {
	got, err := h.session.Client().Get(context.Background(), name+"/", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for _, kv := range got.Kvs {
		if kv.Lease == int64(h.session.Lease()) {
			h.key, h.rev = string(kv.Key), kv.CreateRevision
			return nil
		}
	}
	return errors.New("the key is gone")
}

func (s *etcdStore) lock(value, kind, name string, wait time.Duration) (hold, error) {
	session, err := concurrency.NewSession(s.client,
		concurrency.WithTTL(int(ttl.Seconds())))
	if err != nil {
		return nil, err
	}
	h := &etcdHold{session: session}
	switch kind {
	case "mutex":
		err = lockMutex(h, name, wait)
	case "latch":
		err = campaign(h, value, name, wait)
	default:
		err = lockRW(h, kind, name, wait)
	}
	if err == nil {
		err = h.find(name)
	}
	if err != nil {
		session.Close()
		return nil, err
	}
	return h, nil
}

func (s *etcdStore) leader(name string) (string, error) {
	session, err := concurrency.NewSession(s.client)
	if err != nil {
		return "", err
	}
	defer session.Close()
	got, err := concurrency.NewElection(session, name).Leader(context.Background())
	if err != nil {
		return "", err
	}
	return string(got.Kvs[0].Value), nil
}

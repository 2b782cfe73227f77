package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-1415985d/attn/models/chat"
	"github.com/seed-1415985d/attn/models/lm"
)

// A session's file begins with a line of JSON with the messages of a conversation. The rest is what
// lm.Session.Save writes.
type talkFile struct {
	Attn     string         `json:"attn"` // "session"
	Messages []savedMessage `json:"messages,omitempty"`
	Turns    int            `json:"turns,omitempty"` // answers so far
}

// savedMessage is a message.
type savedMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// readSession reads a file into a session, if it exists.
func readSession(path string, s *lm.Session) (*talkFile, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := readTalk(bufio.NewReader(f), s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// mostLine bounds the bytes of the line.
const mostLine = 1 << 20

func readTalk(from *bufio.Reader, s *lm.Session) (*talkFile, error) {
	var t talkFile
	line, err := readLine(from)
	if err == nil {
		err = json.Unmarshal([]byte(line), &t)
	}
	if err != nil || t.Attn != "session" {
		return nil, errors.New("the file is no session of attn-lm, or damaged")
	}
	if _, err := s.Load(from); err != nil {
		return nil, err
	}
	if _, err := from.ReadByte(); err != io.EOF {
		return nil, errors.New("more bytes follow the session, want none")
	}
	return &t, nil
}

// writeSession replaces a file, whole or not at all. If the file is a link it replaces the target.
func writeSession(path string, s *lm.Session, t *talkFile) error {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	if t == nil {
		t = &talkFile{}
	}
	t.Attn = "session"
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	to := bufio.NewWriter(f)
	err = json.NewEncoder(to).Encode(t)
	if err == nil {
		_, err = s.Save(to)
	}
	if err == nil {
		err = to.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the user needs the first error
		err = fmt.Errorf("%s: %w", path, err)
	}
	return err
}

func saved(messages []chat.Message) (all []savedMessage) {
	for _, m := range messages {
		all = append(all, savedMessage(m))
	}
	return all
}

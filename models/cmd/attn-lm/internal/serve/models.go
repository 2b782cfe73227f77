package serve

import (
	"net/http"
	"strings"
)

// served is a model with its names.
type served struct {
	what        string
	names       []string
	context     int
	fingerprint string
}

// models returns all models of the server.
func (s *Server) models() (all []served) {
	if s.Model != nil {
		all = append(all, served{"answers", s.Names, s.Model.Context(), s.fingerprint})
	}
	if s.Embed != nil {
		all = append(all, served{"embeddings", s.EmbedNames, s.Embed.MaxTokens(), ""})
	}
	if s.Rerank != nil {
		all = append(all, served{"scores", s.RerankNames, s.Rerank.MaxTokens(), ""})
	}
	return all
}

// modelInfo is a model in the form of lists.
type modelInfo struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Owner       string `json:"owned_by"`
	Context     int    `json:"max_model_len"`
	Fingerprint string `json:"fingerprint,omitempty"` // all digits
}

func (s *Server) infos() (all []modelInfo) {
	for _, m := range s.models() {
		for _, name := range m.names {
			all = append(all, modelInfo{name, "model", s.started.Unix(), "attn-lm", m.context,
				m.fingerprint})
		}
	}
	return all
}

func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": s.infos()})
	return nil
}

func (s *Server) oneModel(w http.ResponseWriter, r *http.Request) error {
	name := strings.TrimPrefix(r.URL.Path, modelsPath+"/")
	var names []string
	for _, m := range s.infos() {
		if m.ID == name {
			writeJSON(w, http.StatusOK, m)
			return nil
		}
		names = append(names, m.ID)
	}
	_, err := named(name, names)
	return err
}

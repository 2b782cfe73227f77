package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// EncodeImages returns a vector of Dimensions numbers for each image, such as image.Decode returns,
// for models of CLIP, SigLIP, DINOv2 and ViT. With CLIP and SigLIP, Encode makes vectors of texts
// for the same space. [Model.Similarity] compares vectors; they have length 1 only with
// Options.Normalize, or if modules.json says so. Images are resized and cropped by
// preprocessor_config.json, with the same numbers as Pillow; alpha is dropped, and EXIF orientation
// is not applied. Sides have 1 to 16384 pixels, and an image has at most 2²⁶. Damaged images are
// errors: planes shorter than the bounds and their stride say, and pixels whose color is nil or not
// in the palette. Images must not change during the call.
func (m *Model) EncodeImages(images []image.Image) ([][]float32, error) {
	if err := m.checkImages(images); err != nil {
		return nil, err
	}
	n := m.images.Dimensions()
	dst := make([]float32, len(images)*n)
	if err := m.images.computeImages(dst, images, outVectors); err != nil {
		return nil, err
	}
	return rowsOf(dst, len(images), n), nil
}

// ClassifyImages returns a row of probabilities for each image, one for each of the Labels, by
// problem_type as [Model.Classify] does for texts. The model's class must be
// ViTForImageClassification. Images are those that [Model.EncodeImages] reads.
func (m *Model) ClassifyImages(images []image.Image) ([][]float32, error) {
	if err := m.checkImages(images); err != nil {
		return nil, err
	}
	v := m.images
	if v.head == nil {
		return nil, fmt.Errorf("embed: %s: it has no head that classifies images, want a ViT%s", m.path,
			imageClasses)
	}
	n := len(v.head.labels)
	dst := make([]float32, len(images)*n)
	if err := v.computeImages(dst, images, outLogits); err != nil {
		return nil, err
	}
	rows := rowsOf(dst, len(images), n)
	if err := v.head.probabilities(v.pool, dst, rows); err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	return rows, nil
}

// checkImages refuses models that read no images, and images of invalid sizes.
func (m *Model) checkImages(images []image.Image) error {
	if m.images == nil {
		return fmt.Errorf("embed: %s: it reads texts only, want a model of images: CLIP, SigLIP, DINOv2 "+
			"or ViT", m.path)
	}
	for i, picture := range images {
		if err := checkImage(i, picture); err != nil {
			return err
		}
	}
	return nil
}

// errNoTexts is the error of methods for texts.
var errNoTexts = errors.New("it reads images only, want EncodeImages or ClassifyImages")

// computeImages writes vectors or logits to dst, a row for each image, batch by batch.
func (m *Model) computeImages(dst []float32, images []image.Image, out output) error {
	r, err := m.acquireRunner(context.Background())
	if err != nil {
		return err
	}
	defer m.releaseRunner(r)
	width := m.outWidth(out)
	for done := 0; done < len(images); {
		n, each, err := r.batchOfImages(images, done)
		if err != nil {
			return err
		}
		r.loadImages(images[done:done+n], each)
		r.forward()
		rows := dst[done*width:][:n*width]
		switch {
		case out != outVectors:
			r.scoreBatch(rows, out)
		case m.vision.head != nil:
			r.pooled = resize(r.pooled, n*r.hidden)
			r.attendHead(r.pooled, m.vision.head)
			r.applySteps(n, r.hidden)
			r.copyVectors(rows)
		default:
			r.poolBatch(rows, 0)
		}
		r.checkFinite(rows, done, width)
		if r.err != nil {
			return fmt.Errorf("embed: %w", r.err)
		}
		if done += n; m.options.Progress != nil {
			m.options.Progress(done, len(images))
		}
	}
	return nil
}

// batchOfImages returns how many images from one on are of one size and in one batch, and how many
// rows each has.
func (r *runner) batchOfImages(images []image.Image, from int) (n, each int, err error) {
	p, most := &r.pictures, len(images)-from
	if v := r.vision; !v.varies() {
		p.vision = v
	} else {
		sizeOf := func(i int) rectangle {
			b := images[i].Bounds()
			return v.processor.resized(rectangle{b.Dy(), b.Dx()})
		}
		size := sizeOf(from)
		if p.vision, err = v.of(size, r.hidden, p.vision); err != nil {
			b := images[from].Bounds()
			p.vision = nil
			return 0, 0, fmt.Errorf("embed: images[%d] is of %d × %d pixels: %w: %w", from, b.Dx(), b.Dy(),
				err, attn.ErrOption)
		}
		for most = 1; from+most < len(images) && sizeOf(from+most) == size; most++ {
		}
	}
	each = p.vision.rows(r.hidden)
	return min(most, max(1, r.options.BatchTokens/each)), each, nil
}

// pictures are the images of a batch, and their patches. A worker makes the patches of one image at
// a time.
type pictures struct {
	*vision
	images  []image.Image
	patches []float32
	memory  []scratch // for each worker
	next    atomic.Int64
}

// loadImages makes the patches of a batch, each rows an image.
func (r *runner) loadImages(images []image.Image, each int) {
	p := &r.pictures
	p.images = images
	p.patches = resize(p.patches, len(images)*p.grid.h*p.grid.w*p.vision.patches.In)
	r.lens, r.tokens = r.lens[:0], len(images)*each
	for range images {
		r.lens = append(r.lens, each)
	}
	workers := min(r.options.Workers, len(images))
	if n := workers - len(p.memory); n > 0 {
		p.memory = append(p.memory, make([]scratch, n)...)
	}
	p.next.Store(0)
	if workers == 1 {
		p.Work(0)
	} else {
		r.try(r.pool.Run(workers, p))
	}
	p.images = nil
}

// Work makes patches of images until none is left. It implements attn.Worker.
func (p *pictures) Work(worker int) {
	size := p.grid.h * p.grid.w * p.vision.patches.In
	for {
		i := int(p.next.Add(1)) - 1
		if i >= len(p.images) {
			return
		}
		pixels := p.processor.pixels(&p.memory[worker], p.images[i], p.input)
		p.processor.patches(p.patches[i*size:][:size], pixels, p.input.w, p.patch, p.grid)
	}
}

// imageModules is a modules.json with a CLIPModel, in the form of sentence-transformers.
type imageModules struct{ normalize bool }

// imageFolder returns the loader of the folder with the model, which is a subfolder if modules.json
// names a CLIPModel there. modules is nil without modules.json.
func imageFolder(l *weights.Loader) (inner *weights.Loader, modules *imageModules) {
	const file = "modules.json"
	var list []module
	l.OptionalJSON(file, &list, strictjson.Idle{"kwargs": {"[]"}})
	if l.Err != nil || len(list) == 0 || list[0].kind() != clipModule {
		return l, nil
	}
	for i, m := range list {
		kind := clipModule
		if i > 0 {
			kind = "Normalize"
		}
		if m.kind() != kind || m.Index != i || m.Path != "" && !filepath.IsLocal(m.Path) {
			l.Check(file, fmt.Errorf("module %d has idx %d, type %q and path %q, want idx %d, %s and a "+
				"folder within this one", i, m.Index, m.Type, m.Path, i, kind))
		}
	}
	modules = &imageModules{len(list) > 1}
	if l.Err != nil || list[0].Path == "" {
		return l, modules
	}
	return weights.Of(filepath.Join(l.Path, list[0].Path), l.Way), modules
}

const clipModule = "CLIPModel"

// imageKind is a kind of models of pictures.
type imageKind struct {
	open    func(m *Model, l *weights.Loader)
	classes []string // that architectures may name; the first makes vectors
}

// imageKinds maps values of model_type to kinds.
var imageKinds = map[string]*imageKind{
	"clip":                  {(*Model).openCLIP, []string{clipModule}},
	"siglip":                {(*Model).openSigLIP, []string{"SiglipModel"}},
	"dinov2":                {(*Model).openDINO, []string{"Dinov2Model"}},
	"dinov2_with_registers": {(*Model).openDINO, []string{"Dinov2WithRegistersModel"}},
	"vit":                   {(*Model).openViT, []string{"ViTModel", "ViT" + imageClasses}},
}

// checkClass refuses classes that compute something else.
func (k *imageKind) checkClass(l *weights.Loader) {
	var f labelsFile
	l.JSON(configJSON, &f, strictjson.AnyKey)
	for _, class := range f.Architectures {
		if !slices.Contains(k.classes, class) {
			l.Check(configJSON, fmt.Errorf("architectures is %q, want %s, or to classify images ViT%s",
				f.Architectures, k.classes[0], imageClasses))
		}
	}
}

// openImages reads a model of images. outer is its folder, l the folder of its tensors.
func (m *Model) openImages(outer, l *weights.Loader, kind string, modules *imageModules) {
	switch {
	case l.Err != nil:
		return
	case modules == nil && outer.Exists("modules.json"):
		l.Check("modules.json",
			fmt.Errorf("the first module is no %s, and model_type is %q, want one, or "+
				"no such file", clipModule, kind))
	case modules != nil && kind != "clip":
		l.Check(configJSON, fmt.Errorf("model_type is %q, and modules.json names a %s, want clip", kind,
			clipModule))
	}
	m.family, m.sentence = kind, usualSentence()
	m.listed, m.steps = modules != nil, nil
	m.readTexts(outer)
	if l.Err = cmp.Or(l.Err, outer.Err); l.Err != nil {
		return
	}
	imageKinds[kind].checkClass(l)
	imageKinds[kind].open(m, l)
	if modules != nil && modules.normalize {
		project := m.project
		m.project = func(b *builder) {
			project(b)
			m.steps = append(m.steps, step{})
			m.images.steps = append(m.images.steps, step{})
		}
	}
}

// buildImages loads the weights of both towers.
func (m *Model) buildImages(l *weights.Loader) {
	var idle []string
	towers := []*Model{m, m.images}
	if m.images == m {
		towers = towers[:1]
	}
	for _, tower := range towers {
		b := newBuilder(l, tower.description)
		b.loadVision()
		tower.tables, tower.all = b.loadTables(), b.loadLayers()
		tower.final = b.loadNorm(b.names.final)
		idle = append(idle, tower.names.idleTensors()...)
	}
	if m.project != nil {
		m.project(newBuilder(l, m.description))
	}
	m.matrices = l.Packed
	l.CheckUsed(idle...)
}

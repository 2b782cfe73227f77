package embed

import (
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// processor makes patches of pictures, like an image processor of transformers.
type processor struct {
	filter   resampling
	resizes  bool
	shortest int // the shorter side after resizing; 0: see size
	size     rectangle
	crops    bool
	crop     rectangle
	values   [3][256]float32 // the number for each byte of a channel
}

// rectangle is a height and a width in pixels, or in patches.
type rectangle struct{ h, w int }

// processorFile is preprocessor_config.json.
type processorFile struct {
	Type    string       `json:"image_processor_type"`
	Older   string       `json:"feature_extractor_type"`
	Resizes *bool        `json:"do_resize"`
	Size    *sideLengths `json:"size"`
	Filter  *int         `json:"resample"`
	Crops   *bool        `json:"do_center_crop"`
	Crop    *sideLengths `json:"crop_size"`
	Scales  *bool        `json:"do_rescale"`
	Factor  *float64     `json:"rescale_factor"`
	Norms   *bool        `json:"do_normalize"`
	Mean    *[]float64   `json:"image_mean"`
	Std     *[]float64   `json:"image_std"`
}

// sideLengths are a square, a height and a width, or a shorter side.
type sideLengths struct{ square, height, width, shortest int }

// UnmarshalJSON reads a number or an object.
func (s *sideLengths) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &s.square) == nil {
		return nil
	}
	var keys struct {
		Height   int `json:"height"`
		Width    int `json:"width"`
		Shortest int `json:"shortest_edge"`
	}
	if err := strictjson.Unmarshal(data, &keys, nil); err != nil {
		return err
	}
	s.height, s.width, s.shortest = keys.Height, keys.Width, keys.Shortest
	return nil
}

const processorJSON = "preprocessor_config.json"

// processorIdle are keys without effect: names, steps that are always done here, and steps of other
// classes that this package does not have.
var processorIdle = strictjson.Idle{"processor_class": nil, "do_convert_rgb": nil,
	"valid_processor_keys": nil, "_valid_processor_keys": nil, "do_pad": {"false"},
	"return_tensors": nil, "data_format": nil, "input_data_format": nil, "device": nil,
	"disable_grouping": nil, "default_to_square": nil, "auto_map": nil, "do_thumbnail": {"false"},
	"do_align_long_axis": {"false"}, "do_reduce_labels": {"false"}, "do_flip_channel_order": {"false"},
	"do_rotate": {"false"}, "do_image_splitting": {"false"}, "do_affine_transform": {"false"}}

// openAI and halves are means and standard deviations of channels.
var (
	openAIMean = []float64{0.48145466, 0.4578275, 0.40821073}
	openAIStd  = []float64{0.26862954, 0.26130258, 0.27577711}
	halves     = []float64{0.5, 0.5, 0.5}
)

// processorClasses are the defaults of classes: CLIP and Bit crop, the others do not.
var processorClasses = map[string]processorFile{
	"CLIP": {Size: &sideLengths{shortest: 224}, Filter: new(int(bicubic)), Mean: &openAIMean,
		Std: &openAIStd},
	"Bit": {Size: &sideLengths{shortest: 224}, Filter: new(int(bicubic)), Mean: &openAIMean,
		Std: &openAIStd},
	"Siglip": {Size: &sideLengths{square: 224}, Filter: new(int(bicubic)), Mean: &halves,
		Std: &halves},
	"ViT": {Size: &sideLengths{square: 224}, Filter: new(int(bilinear)), Mean: &halves,
		Std: &halves},
}

// readProcessor reads preprocessor_config.json. usual is the class if the file names none.
func readProcessor(l *weights.Loader, usual string) *processor {
	var f processorFile
	l.JSON(processorJSON, &f, processorIdle)
	if l.Err != nil {
		return nil
	}
	p, err := f.processor(usual)
	l.Check(processorJSON, err)
	return p
}

// class returns the class that the file names, without the suffixes of class names.
func (f *processorFile) class(usual string) (string, error) {
	name := f.Type
	if name == "" {
		name = f.Older
	}
	if name == "" {
		return usual, nil
	}
	class := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "Fast"), "ImageProcessor"),
		"FeatureExtractor")
	if _, ok := processorClasses[class]; !ok || class == name {
		return "", fmt.Errorf("image_processor_type is %q, want BitImageProcessor, CLIPImageProcessor, "+
			"SiglipImageProcessor or ViTImageProcessor", name)
	}
	return class, nil
}

// processor returns the file's processor, with defaults of its class.
func (f *processorFile) processor(usual string) (*processor, error) {
	class, err := f.class(usual)
	if err != nil {
		return nil, err
	}
	defaults, crops := processorClasses[class], class == "CLIP" || class == "Bit"
	size, filter := orElse(f.Size, *defaults.Size), orElse(f.Filter, *defaults.Filter)
	p := &processor{filter: resampling(filter), resizes: orElse(f.Resizes, true),
		crops: crops && orElse(f.Crops, true)}
	switch {
	case filter < int(nearest) || filter > int(hamming):
		return nil, fmt.Errorf("resample is %d, want 0 to 5", filter)
	case !crops && orElse(f.Crops, false):
		return nil, fmt.Errorf("do_center_crop is true, want false for %sImageProcessor", class)
	}
	if p.resizes {
		if err := p.setSize(size, crops); err != nil {
			return nil, err
		}
	}
	if p.crops {
		if p.crop, err = orElse(f.Crop, sideLengths{square: 224}).rectangle("crop_size"); err != nil {
			return nil, err
		}
	}
	return p, p.setValues(f, &defaults)
}

func orElse[T any](x *T, otherwise T) T {
	if x == nil {
		return otherwise
	}
	return *x
}

// setSize sets the size after resizing. For classes that crop, a single number is the shorter side.
func (p *processor) setSize(s sideLengths, crops bool) (err error) {
	if crops && s.square != 0 {
		s.shortest, s.square = s.square, 0
	}
	if s.shortest == 0 {
		p.size, err = s.rectangle("size")
		return err
	}
	if s.height != 0 || s.width != 0 || s.shortest < 1 || s.shortest > mostSide {
		return fmt.Errorf("size has shortest_edge %d, height %d and width %d, want the first "+
			"alone, 1 to "+
			"%d, or both others", s.shortest, s.height, s.width, mostSide)
	}
	p.shortest = s.shortest
	return nil
}

// rectangle returns a height and a width.
func (s sideLengths) rectangle(key string) (rectangle, error) {
	r := rectangle{s.height, s.width}
	if s.square != 0 {
		r = rectangle{s.square, s.square}
	}
	if min(r.h, r.w) < 1 || max(r.h, r.w) > mostSide || s.shortest != 0 {
		return r, fmt.Errorf("%s is %d × %d, want a height and a width of 1 to %d", key, r.h, r.w,
			mostSide)
	}
	return r, nil
}

// setValues computes the numbers for the bytes of each channel.
func (p *processor) setValues(f, defaults *processorFile) error {
	scales, norms, factor := orElse(f.Scales, true), orElse(f.Norms, true), orElse(f.Factor, 1.0/255)
	mean, std := orElse(f.Mean, *defaults.Mean), orElse(f.Std, *defaults.Std)
	if norms && (len(mean) != 3 || len(std) != 3 || slices.Contains(std, 0)) {
		return fmt.Errorf("image_mean is %v and image_std %v, want three numbers each, and none of the "+
			"latter 0", mean, std)
	}
	for c := range p.values {
		for i := range p.values[c] {
			x := float32(i)
			if scales {
				x = float32(float64(float64(i) * factor))
			}
			if norms {
				x = float32(float32(x-float32(mean[c])) / float32(std[c]))
			}
			if x-x != 0 {
				return errors.New("rescale_factor, image_mean and image_std give numbers that are not finite")
			}
			p.values[c][i] = x
		}
	}
	return nil
}

// output returns the size of all pictures after resizing and cropping.
func (p *processor) output() (rectangle, error) {
	switch {
	case p.crops:
		return p.crop, nil
	case p.resizes && p.shortest == 0:
		return p.size, nil
	}
	return rectangle{},
		errors.New("do_center_crop is false and size is no height and width, so that " +
			"pictures keep their shapes, want one size for all")
}

// resized returns the size of a picture after resizing.
func (p *processor) resized(from rectangle) rectangle {
	switch {
	case !p.resizes:
		return from
	case p.shortest == 0:
		return p.size
	case from.w <= from.h:
		return rectangle{p.shortest * from.h / from.w, p.shortest}
	}
	return rectangle{p.shortest, p.shortest * from.w / from.h}
}

// scratch is memory for one picture.
type scratch struct {
	rows, columns taps
	row, to       []byte
	narrow        []byte
	sums          []int32
}

// stretch is the range of a side's outputs that a crop keeps, and the place of the first one in it.
type stretch struct{ begin, end, offset int }

// visible returns the outputs of a side of n pixels that a crop to size keeps. Pixels outside are
// 0.
func visible(n, size int) stretch {
	first := (n - size) >> 1 // rounded down, also where it is negative
	begin, end := max(0, first), min(n, first+size)
	return stretch{begin, end, begin - first}
}

// pixels returns the picture as red, green and blue bytes, after resizing and cropping to out.
func (p *processor) pixels(s *scratch, m image.Image, out rectangle) []byte {
	from := rectangle{m.Bounds().Dy(), m.Bounds().Dx()}
	whole := p.resized(from)
	y, x := visible(whole.h, out.h), visible(whole.w, out.w)
	s.to = resizeBytes(s.to, 3*out.h*out.w)
	if y.offset > 0 || x.offset > 0 || y.end-y.begin < out.h || x.end-x.begin < out.w {
		clear(s.to)
	}
	if from == whole {
		for row := y.begin; row < y.end; row++ {
			readRow(s.line(row-y.begin+y.offset, x, out), m, x.begin, row)
		}
		return s.to
	}
	if p.filter == nearest {
		p.pick(s, m, from, whole, y, x, out)
	} else {
		p.resample(s, m, from, whole, y, x, out)
	}
	return s.to
}

// line returns the pixels of a row of the result that come from the picture.
func (s *scratch) line(row int, x stretch, out rectangle) []byte {
	return s.to[3*(row*out.w+x.offset):][:3*(x.end-x.begin)]
}

// pick resizes to the nearest pixels.
func (p *processor) pick(s *scratch, m image.Image, from, whole rectangle, y, x stretch,
	out rectangle) {
	s.rows.placeNearest(from.h, whole.h, y.begin, y.end)
	s.columns.placeNearest(from.w, whole.w, x.begin, x.end)
	s.row = resizeBytes(s.row, 3*from.w)
	for i, row := range s.rows.first {
		readRow(s.row, m, 0, int(row))
		to := s.line(i+y.offset, x, out)
		for j, column := range s.columns.first {
			copy(to[3*j:3*j+3], s.row[3*column:])
		}
	}
}

// resample resizes rows, then columns. It skips a pass that changes no size.
func (p *processor) resample(s *scratch, m image.Image, from, whole rectangle, y, x stretch,
	out rectangle) {
	n := 3 * (x.end - x.begin)
	first, last := y.begin, y.end // the rows that the second pass reads
	if from.h != whole.h {
		s.rows.place(p.filter, from.h, whole.h, y.begin, y.end)
		first, last = s.rows.extent()
	}
	if from.w != whole.w {
		s.columns.place(p.filter, from.w, whole.w, x.begin, x.end)
	}
	s.narrow = resizeBytes(s.narrow, (last-first)*n)
	for row := first; row < last; row++ {
		to := s.narrow[(row-first)*n:][:n]
		if from.w == whole.w {
			readRow(to, m, x.begin, row)
			continue
		}
		begin, end := s.columns.extent()
		s.row = resizeBytes(s.row, 3*from.w)
		readRow(s.row[3*begin:3*end], m, begin, row)
		s.columns.row(to, s.row)
	}
	s.sums = resizeInts(s.sums, n)
	for i := range y.end - y.begin {
		to := s.line(i+y.offset, x, out)
		if from.h == whole.h {
			copy(to, s.narrow[i*n:])
		} else {
			s.rows.column(to, i, s.narrow, first, s.sums)
		}
	}
}

// extent returns the first source of all outputs, and the end of the sources.
func (t *taps) extent() (first, end int) {
	last := len(t.first) - 1
	return int(t.first[0]), int(t.first[last] + t.count[last])
}

func resizeBytes(x []byte, n int) []byte {
	if cap(x) < n {
		return make([]byte, n)
	}
	return x[:n]
}

// patches writes the numbers of each patch: for each channel rows of pixels. Pixels outside of
// whole patches are dropped.
func (p *processor) patches(dst []float32, pixels []byte, width, side int, grid rectangle) {
	at := 0
	for gy := range grid.h {
		for gx := range grid.w {
			for c := range p.values {
				values := &p.values[c]
				for y := range side {
					row := pixels[3*((gy*side+y)*width+gx*side)+c:]
					for x := range side {
						dst[at+x] = values[row[3*x]]
					}
					at += side
				}
			}
		}
	}
}

package folder

type BlockType int

const (
	Q8_0 BlockType = iota + 1
	Q4_0
	IQ4_NL
	Q4_K
	Q5_K
	Q6_K
	MXFP4
	BlockF16
	BlockBF16
)

package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/view"
)

// paramFlags are the parameters of a question as flags. Each function takes the value of a flag, or says what is
// wrong with it.
type paramFlags []func() error

// register adds a flag for each parameter.
func (f *paramFlags) register(cmd *cobra.Command, params []view.Param) {
	flags := cmd.Flags()
	for _, p := range params {
		switch v := p.Value.(type) {
		case *bool:
			flags.BoolVarP(v, p.Name, p.Letter, *v, p.Help)
		case *uint:
			flags.UintVarP(v, p.Name, p.Letter, *v, p.Help)
			*f = append(*f, func() error { return checkNumber(p, *v) })
		case *float64:
			flags.Float64VarP(v, p.Name, p.Letter, *v, p.Help)
			*f = append(*f, func() error { return checkFraction(p, *v) })
		case *string:
			f.registerText(cmd, p, *v, func(text string) error {
				*v = text
				return nil
			})
		case view.Value:
			f.registerText(cmd, p, v.String(), func(text string) error {
				return explainValue(p, text, v.UnmarshalText([]byte(text)))
			})
		}
	}
}

// registerText adds a flag for a word, if the parameter has words, or for any text.
func (f *paramFlags) registerText(cmd *cobra.Command, p view.Param, byDefault string, set func(text string) error) {
	text := &byDefault
	if p.Words == nil {
		cmd.Flags().StringVarP(text, p.Name, p.Letter, byDefault, p.Help)
	} else {
		choice := &usage.Choice{Value: byDefault, From: p.Words}
		choice.Register(cmd, p.Name, p.Help)
		text = &choice.Value
	}
	*f = append(*f, func() error {
		if *text == "" {
			return nil
		}
		return set(*text)
	})
}

// setParams takes the values that the flags have got.
func (f paramFlags) setParams() error {
	for _, take := range f {
		if err := take(); err != nil {
			return err
		}
	}
	return nil
}

func checkNumber(p view.Param, n uint) error {
	if p.Most > 0 && !(float64(n) >= p.Least && float64(n) <= p.Most) {
		return usage.Errorf("--%s must be %v to %v", p.Name, p.Least, p.Most)
	}
	return nil
}

func checkFraction(p view.Param, x float64) error {
	switch {
	case p.Over && !(x > p.Least && x <= p.Most):
		return usage.Errorf("--%s %v is not over %v and up to %v", p.Name, x, p.Least, p.Most)
	case !(x >= p.Least && x <= p.Most):
		return usage.Errorf("--%s %v is not from %v to %v %s", p.Name, x, p.Least, p.Most, p.Unit)
	}
	return nil
}

// explainValue says in our words what is wrong with the text of a parameter.
func explainValue(p view.Param, text string, err error) error {
	if err == nil {
		return nil
	}
	if explained := explainRegexp(text, err); explained != err {
		return usage.Errorf("--%s: %w", p.Name, explained)
	}
	return usage.Errorf("--%s %w", p.Name, err)
}

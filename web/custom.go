package web

import (
	"context"
	"html"
	"html/template"
	"regexp"
	"strings"

	"github.com/holdfast-run/holdfast/site"
)

// texts are what site admins have the pages say beside their own text. They are shown as
// text: a page that asks for passwords holds no markup that somebody has sent in.
type texts struct {
	SupportEmail, LoginHelp, Footer, Error, NewUser string
}

var markup = regexp.MustCompile(`<[^<>]*>`)

// plain is the text of a piece of HTML, without its markup.
func plain(text string) string {
	return strings.TrimSpace(html.UnescapeString(markup.ReplaceAllString(text, "")))
}

// withTexts gives the pages with what is said on them now. Where it cannot be read they say
// nothing of it.
func (d Deps) withTexts(ctx context.Context) (*template.Template, error) {
	var said texts
	if d.Site != nil {
		set, err := d.Site.Current(ctx)
		if err != nil {
			d.Log.Warn("the texts of the site cannot be read", "error", err)
		}
		said = textsOf(set)
	}
	drawn, err := pages.Clone()
	if err != nil {
		return nil, err
	}
	return drawn.Funcs(template.FuncMap{"texts": func() texts { return said }}), nil
}

func textsOf(set site.Settings) texts {
	return texts{
		SupportEmail: plain(set.SupportEmail), LoginHelp: plain(set.LoginHelp), Footer: plain(set.Footer), Error: plain(set.ErrorText), NewUser: plain(set.NewUser),
	}
}

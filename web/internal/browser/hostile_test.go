package browser

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestHostileAddresses: whatever a link has put into the address of any page, it stays text there and in what the server
// says of it.
func TestHostileAddresses(t *testing.T) {
	t.Parallel()
	tb := open(t, startUI(t, nil, session+"web.pb.gz"))
	tb.mayBeRefused()
	of := url.QueryEscape("<img src=x onerror=alert(1)>\u202e")
	for _, address := range []string{
		"/p/H/flame", "/p/H/top", "/p/live:H/tuning", "/p/span:H/time?path=H", "/t/H", "/t/H/tuning", "/t/H/H", "/H",
		"/p/file:1/flame?path=H", "/p/file:1/flame?q=H", "/p/file:1/flame?root=H&width=H", "/p/file:1/flame?by=H", "/p/file:1/flame?label=H=H", "/p/file:1/flame?event=H", "/p/file:1/flame?recent=H",
		"/p/file:1/top?sort=H", "/p/file:1/top?q=H", "/p/file:1/query?path=H", "/p/file:1/query?path=H+>+H", "/p/file:1/receivers?method=H", "/p/file:1/receivers?site=H&verdict=H",
		"/compare?a=H", "/compare?a=H&b=H", "/compare?a=file:1&b=file:1&by=H", "/doctor?pid=H", "/fleet", "/fleet?name=H&method=H",
	} {
		address = strings.ReplaceAll(address, "H", of)
		tb.do(chromedp.Evaluate[chromedp.Void]("history.pushState(null, '', " + quote(address) + "); void dispatchEvent(new PopStateEvent('popstate'))"))
		tb.wait(`document.body.dataset.state !== "loading"`)
		if n := eval[int](tb, `document.querySelectorAll("img, main script, iframe").length`); n != 0 {
			t.Errorf("%s: the address has become %d elements", address, n)
		}
		if strings.ContainsRune(tb.text(), '\u202e') {
			t.Errorf("%s: the address turns text around", address)
		}
	}
}

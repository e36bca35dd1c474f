module github.com/ccmapd/ccmapd/web/internal

go 1.26.0

require (
	github.com/chromedp/cdproto v0.160.1
	github.com/chromedp/chromedp v0.23.0
	github.com/evanw/esbuild v0.28.2
)

require (
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/klauspost/cpuid/v2 v2.4.2 // indirect
	github.com/landlock-lsm/go-landlock v0.11.0 // indirect
	github.com/prometheus/procfs v0.23.0 // indirect
	golang.org/x/term v0.47.0 // indirect
	kernel.org/pub/linux/libs/security/libcap/psx v1.2.78 // indirect
)

require (
	github.com/ccmapd/ccmapd v0.0.0
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/ccmapd/ccmapd => ../..

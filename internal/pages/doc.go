// Package pages serves pages to a browser, and lets one page in.
//
//	Shell   the files of the pages, under their policy: they hold no figure
//	Gate    a secret that one browser exchanges, once, for a session
//	Server  Shell, Gate and routes of data on one port of loopback
//
// Anybody on this machine may connect to a port, another user too, and any site may have the browser send requests to
// it. So data needs the session, which is in no cookie (those of 127.0.0.1 go to every port) and in no argument of a
// program, and requests that a page of another site has the browser send are refused.
package pages

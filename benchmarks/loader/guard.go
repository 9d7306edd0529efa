package main

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"os"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// The secret of -access-key; an argument would show it to everybody on the machine.
const secretVariable = "LOADER_SECRET"

// user signs each request of its own, as official clients do.
type user struct {
	accessKey string
	secret    []byte
}

func (u user) authorization(date string) string {
	mac := hmac.New(sha1.New, u.secret)
	mac.Write([]byte(date))
	return "MQv2-HMAC-SHA1 Credential=" + u.accessKey + ", SignedHeaders=x-mq-date-time, Signature=" +
		hex.EncodeToString(mac.Sum(nil))
}

// transport is TLS with the authority of -tls-ca, or plain text without one.
func transport(o *options) (credentials.TransportCredentials, error) {
	if o.tlsCA == "" {
		return insecure.NewCredentials(), nil
	}
	found, err := os.ReadFile(o.tlsCA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(found) {
		return nil, fmt.Errorf("%s: no certificate", o.tlsCA)
	}
	return credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}), nil
}

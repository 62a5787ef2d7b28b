// A TLS client for the scenarios: prints the line that the server says first.
//
//	tls ADDRESS:PORT SERVER-NAME CERTIFICATE.pem
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address, name, certificate string) error {
	pem, err := os.ReadFile(certificate)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	config := &tls.Config{ServerName: name, RootCAs: roots}
	connection, err := tls.DialWithDialer(dialer, "tcp", address, config)
	if err != nil {
		return err
	}
	defer connection.Close()
	line, err := bufio.NewReader(connection).ReadString('\n')
	if err != nil {
		return err
	}
	fmt.Print(line)
	return nil
}

// A Kubernetes control plane in one program, chosen by the name it is started under (kube-apiserver, kube-scheduler,
// kube-controller-manager, kubectl, etcd), like busybox. Test equipment: the product never ships it.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kubectl":
		os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand()))
	case "etcd":
		if err := etcd(os.Args[1:]); err != nil {
			fatal(err)
		}
	default:
		fatal(fmt.Errorf("start me as one of the control plane's components, not as %q", name))
	}
}

// etcd serves one member until SIGTERM. It takes those of etcd's own flags that a single test member needs, so that
// etcd's released binary can stand in its place.
func etcd(args []string) error {
	flags := flag.NewFlagSet("etcd", flag.ExitOnError)
	config := embed.NewConfig()
	flags.StringVar(&config.Dir, "data-dir", "default.etcd", "directory of the database")
	flags.BoolVar(&config.UnsafeNoFsync, "unsafe-no-fsync", false, "do not wait for the disk")
	flags.StringVar(&config.LogLevel, "log-level", config.LogLevel, "debug, info, warn, error")
	client := flags.String("listen-client-urls", "http://127.0.0.1:2379", "where clients connect")
	peer := flags.String("listen-peer-urls", "http://127.0.0.1:2380", "where other members would connect")
	advertised := flags.String("advertise-client-urls", "", "what clients are told; default: listen-client-urls")
	advertisedPeer := flags.String("initial-advertise-peer-urls", "", "default: listen-peer-urls")
	cluster := flags.String("initial-cluster", "", "default: this member alone")
	if err := flags.Parse(args); err != nil {
		return err
	}
	urls := func(text string) ([]url.URL, error) {
		parsed, err := url.Parse(text)
		if err != nil {
			return nil, err
		}
		return []url.URL{*parsed}, nil
	}
	var err error
	for _, part := range []struct {
		target *[]url.URL
		text   string
	}{
		{&config.ListenClientUrls, *client},
		{&config.AdvertiseClientUrls, cmp.Or(*advertised, *client)},
		{&config.ListenPeerUrls, *peer},
		{&config.AdvertisePeerUrls, cmp.Or(*advertisedPeer, *peer)},
	} {
		if *part.target, err = urls(part.text); err != nil {
			return err
		}
	}
	config.InitialCluster = cmp.Or(*cluster, config.InitialClusterFromName(config.Name))
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	select {
	case <-stop.Done():
		return nil
	case err := <-server.Err():
		return err
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

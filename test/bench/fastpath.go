package main

import (
	"context"
	"fmt"
	"time"
)

// fastPath has weir without and with its fast path, and the peer, take turns.
func fastPath(ctx context.Context, weir string, rounds int, lasts time.Duration) error {
	kinds := []string{"wire", "peer", "weir", "fast"}
	sides := map[string]*side{}
	for _, kind := range kinds {
		s, err := start(ctx, kind, weir)
		if err != nil {
			return fmt.Errorf("bring up %s: %w", kind, err)
		}
		defer s.end()
		sides[kind] = s
	}
	fmt.Println("Packets, one sender and one router on one processor, the same sink behind each: dropped at the ISP's port.")
	fmt.Println("wire: no router; peer: nftables, masquerade, one namespace; weir: fast_path = \"off\"; fast: fast_path = \"tc\".")
	fmt.Printf("The peer's ruleset:\n%s\n", peerRules)
	ratio := map[string]float64{}
	for _, what := range []string{"small", "flows"} {
		rates, ratios := map[string][]float64{}, map[string][]float64{}
		for range rounds {
			cost := map[string]float64{} // seconds a packet
			for _, kind := range kinds {
				f, err := sides[kind].do(order{Do: what, Lasts: lasts})
				if err != nil {
					return fmt.Errorf("%s by %s: %w", what, kind, err)
				}
				rates[kind] = append(rates[kind], f.Count/f.Per)
				cost[kind] = f.Per / f.Count
			}
			for _, kind := range kinds {
				ratios[kind] = append(ratios[kind], cost["peer"]/cost[kind])
			}
			ratios["fast/weir"] = append(ratios["fast/weir"], cost["weir"]/cost["fast"])
		}
		fmt.Printf("  %s\n", titles[what])
		for _, kind := range kinds {
			fmt.Printf("    %-6s %s packets/s, %s of the peer\n", kind, spread(rates[kind], "%.0f"), spread(ratios[kind], "%.2f"))
		}
		fmt.Printf("    with the fast path beside without: %s\n", spread(ratios["fast/weir"], "%.2f"))
		ratio[what] = median(ratios["fast"])
	}
	for what, least := range map[string]float64{"small": 0.5, "flows": 0.8} {
		fmt.Printf("  %s: %.2f of the peer, at least %.1f: %s\n", titles[what], ratio[what], least, holds(ratio[what] >= least))
	}
	return nil
}

var titles = map[string]string{"small": "64-byte UDP, 256 established flows", "flows": "64-byte UDP, each packet a new flow"}

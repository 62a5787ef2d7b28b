//! Entry points of the kernel programs. Policy is `weir_common::decide`; here is only the way to it.

#![no_std]
#![no_main]
#![expect(internal_features, reason = "BPF has atomic read-modify-write only as intrinsics")]
#![feature(core_intrinsics, adt_const_params)]

mod accept;
mod atomic;
mod count;
mod egress;
mod env;
mod health;
mod maps;
mod packet;
mod request;
mod sock;
mod sockops;

use aya_ebpf::{
    macros::{cgroup_skb, cgroup_sock_addr, sock_ops},
    programs::{SkBuffContext, SockAddrContext, SockOpsContext},
};

/// connect() of an IPv4 socket.
#[cgroup_sock_addr(connect4)]
fn weir_connect4(ctx: SockAddrContext) -> i32 {
    sock::connect(&sock::V4(&ctx))
}

/// connect() of an IPv6 socket, also to a v4-mapped address.
#[cgroup_sock_addr(connect6)]
fn weir_connect6(ctx: SockAddrContext) -> i32 {
    sock::connect(&sock::V6(&ctx))
}

/// connect() of an IPv4 socket of the acceptor.
#[cgroup_sock_addr(connect4)]
fn weir_dial4(ctx: SockAddrContext) -> i32 {
    sock::dial(&sock::V4(&ctx))
}

/// connect() of an IPv6 socket of the acceptor.
#[cgroup_sock_addr(connect6)]
fn weir_dial6(ctx: SockAddrContext) -> i32 {
    sock::dial(&sock::V6(&ctx))
}

/// A packet that leaves a socket.
#[cgroup_skb(egress)]
fn weir_egress(ctx: SkBuffContext) -> i32 {
    egress::judge(&ctx)
}

/// A packet of a ClientHello that comes in pieces, or that the agent reads.
#[cgroup_skb(egress)]
fn weir_egress_piece(ctx: SkBuffContext) -> i32 {
    egress::judge_piece(&ctx)
}

/// getpeername() of an IPv4 socket.
#[cgroup_sock_addr(getpeername4)]
fn weir_getpeername4(ctx: SockAddrContext) -> i32 {
    sock::getpeername(&sock::V4(&ctx))
}

/// getpeername() of an IPv6 socket.
#[cgroup_sock_addr(getpeername6)]
fn weir_getpeername6(ctx: SockAddrContext) -> i32 {
    sock::getpeername(&sock::V6(&ctx))
}

/// Life-cycle of TCP sockets.
#[sock_ops]
fn weir_sockops(ctx: SockOpsContext) -> u32 {
    sockops::observe(&ctx);
    1
}

/// A panic would mean a bug; the loop makes the verifier refuse a program that can reach it.
#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

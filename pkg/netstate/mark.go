package netstate

// Mark is the number that marks what is ours in the kernel: the protocol of
// our routes ("ip route show proto 84") and the group of our devices ("ip link
// show group 84"). It is the T of tulle, and free in iproute2's rt_protos.
const Mark = 84

// LinkPrefix begins the name of every device that we make.
const LinkPrefix = "tulle"

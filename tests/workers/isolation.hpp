#pragma once

namespace oncebox::workers {

/// What this process has of its own from now on, and shares with its children only.
enum class Isolation {
  mounts,   ///< what is mounted where
  network,  ///< interfaces, addresses and rules; none to begin with but a loopback that is down
};

/// Needs root, or a kernel that lets users have namespaces of their own; throws, saying so, when it
/// has neither. This process and its children may then mount and configure the network in there.
/// To be called before there are threads.
void isolate(Isolation what);

}  // namespace oncebox::workers

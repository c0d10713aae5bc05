#pragma once

#include <string>
#include <vector>

namespace oncebox::chaos {

/// A network of two machines that are none: this process and its children live on the one, the
/// workers on the other, and a cable lies between. Nobody else sees it, and it is gone with this
/// process.
///
/// This process does not get out of it again. Needs root or user namespaces, and the programs `ip`,
/// `nft` and `nsenter`: the packages iproute2, nftables and util-linux. Throws, saying what is
/// missing.
class PrivateNetwork {
 public:
  /// To be called before there are threads.
  PrivateNetwork();
  ~PrivateNetwork();
  PrivateNetwork(const PrivateNetwork&) = delete;
  PrivateNetwork& operator=(const PrivateNetwork&) = delete;

  /// The address at which the workers reach this side.
  [[nodiscard]] std::string address() const;
  /// From where they come.
  [[nodiscard]] std::string workers_network() const;

  /// What stands before a command that is to run on the other side.
  [[nodiscard]] std::vector<std::string> on_other_side() const;

  enum class Cut {
    silently,   ///< nothing arrives, in neither direction, and nobody is told
    by_resets,  ///< whoever sends is told that the connection does not exist
  };
  void cut(Cut how);
  void heal();

 private:
  void on_both_sides(const std::vector<std::string>& command) const;

  int here_ = -1;  // the namespaces of the network
  int there_ = -1;
};

}  // namespace oncebox::chaos

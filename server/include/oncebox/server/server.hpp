#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "oncebox/fleet/store_set.hpp"
#include "oncebox/server/server_options.hpp"
#include "oncebox/store.hpp"
#include "oncebox/surroundings.hpp"

namespace oncebox::server {

/// A store and the name under which it is served: `/v1/stores/{name}/…`. Letters, digits, `-` and
/// `_`. Borrowed: it must outlive the server.
struct NamedStore {
  std::string name;
  Store& store;
};

struct DrainResult {
  std::size_t unanswered = 0;  ///< requests that were cut off

  [[nodiscard]] bool complete() const noexcept { return unanswered == 0; }
};

/// The HTTP service. Answers requests about its stores from `start` to `stop`, on threads of its
/// own. Every call but the destructor is safe from any thread.
class Server {
 public:
  /// Serves the stores of a set while they are in it. A removed store is let go when the requests
  /// about it are answered; its waiting claims are answered empty. Requests about a store that is
  /// down are answered with 503, and no others.
  ///
  /// The set is borrowed. The tracer is told of the spans of what the server publishes, and the
  /// observer of nothing: the server's figures are its metrics. Reads tokens, certificates and
  /// webhook settings; throws `invalid_argument` or `out_of_range`, naming the option, for what
  /// does not fit together.
  Server(const ServerOptions& options, StoreSet& stores, const Surroundings& surroundings = {});
  /// Serves stores that somebody else has opened. Without another default store it is the first.
  Server(const ServerOptions& options, std::vector<NamedStore> stores,
         const Surroundings& surroundings = {});
  /// Stops at once, as `stop` with no time does.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Listens. Throws `unavailable` when the address cannot be had.
  void start();

  /// Where it listens, once it was started.
  [[nodiscard]] std::uint16_t port() const noexcept;

  /// Reads tokens and certificates again, and looks for stores that have come and gone. What cannot
  /// be read is logged as an error, and the old ones stay. Answers whether all could.
  bool reload();

  /// Drains: no new connections, `/readyz` fails, waiting claims are answered empty, requests under
  /// way are answered, each on a connection that is then closed; no delivery to an endpoint is
  /// begun, and those under way end. What is left after `within` is cut off. May be called again: a
  /// shorter time then holds for a call under way, too.
  DrainResult stop(Duration within);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::server

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/store.hpp"
#include "oncebox/transaction.hpp"

/// The options that commands about a store have in common.
namespace oncebox::app {

struct StoreOptions {
  std::string url = "http://127.0.0.1:8080";
  std::string token_file = {};
  std::string store = {};  ///< of a server; empty: its default
  QueueKind queue = QueueKind::inbox;
  bool json = false;
};

/// --url, --token-file and --json, for commands about a server as a whole.
[[nodiscard]] std::vector<Option> service_options(StoreOptions& options);
/// The same and --store.
[[nodiscard]] std::vector<Option> store_options(StoreOptions& options);
/// The same and --queue.
[[nodiscard]] std::vector<Option> queue_options(StoreOptions& options);

/// Whether it is that of a server, and not of a store.
[[nodiscard]] bool is_server(const std::string& url);

/// The URL with what the other options say. Throws a `Failure` when they do not go with it, or the
/// token cannot be read.
[[nodiscard]] std::string whole_url(const StoreOptions& options);
/// By the environment.
[[nodiscard]] StoreCredentials own_credentials();

/// A store and the part of it that the options choose.
class OpenStore {
 public:
  /// Throws as `open_store` does, and a `Failure` when the token cannot be read.
  explicit OpenStore(const StoreOptions& options);

  [[nodiscard]] Store& store() const noexcept { return *store_; }
  [[nodiscard]] QueueStore& queue() const;
  [[nodiscard]] QueueOperator& queue_operator() const;
  [[nodiscard]] QueueKind kind() const noexcept { return queue_; }

 private:
  std::unique_ptr<Store> store_;
  QueueKind queue_;
};

}  // namespace oncebox::app

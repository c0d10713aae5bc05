#include "api/hosted_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "observe/metrics.hpp"
#include "oncebox/error.hpp"

namespace oncebox::server {

namespace {

constexpr std::size_t kMaxStoreNameBytes = 64;

bool is_store_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  return !name.empty() && name.size() <= kMaxStoreNameBytes && std::ranges::all_of(name, fits);
}

InboxOptions inbox_options(const NamedStore& store, const ServerOptions& options) {
  return {.name = store.name, .enqueue = options.enqueue};
}

}  // namespace

HostedStore::HostedStore(const NamedStore& store, const ServerOptions& options, Logger& logger,
                         Metrics& metrics, const Clock& clock)
    : name_(store.name),
      store_(store.store),
      inbox_(store_, inbox_options(store, options), logger, metrics.observer(name_, "inbox"),
             clock),
      outbox_(store_.outbox(), name_ + "/outbox", logger, metrics.observer(name_, "outbox"), clock),
      begins_([this](std::span<const BeginRequest> batch) { return store_.keys().begin(batch); }),
      completions_([this](std::span<const CompleteRequest> batch) {
        return store_.keys().complete(batch);
      }) {}

HostedStores::HostedStores(const std::vector<NamedStore>& stores, const ServerOptions& options,
                           Logger& logger, Metrics& metrics, const Clock& clock) {
  if (stores.empty()) {
    throw Error(ErrorCode::invalid_argument, "stores: at least one is needed");
  }
  for (const NamedStore& store : stores) {
    if (!is_store_name(store.name)) {
      throw Error(ErrorCode::invalid_argument,
                  "stores: a name is 1 to 64 letters, digits, '-' and '_'");
    }
    for (const auto& other : stores_) {
      if (other->name() != store.name) continue;
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("stores: the name {} is there twice", store.name));
    }
    stores_.push_back(std::make_unique<HostedStore>(store, options, logger, metrics, clock));
  }
}

HostedStore& HostedStores::find(std::string_view name) {
  if (name.empty()) return default_store();
  for (const auto& store : stores_) {
    if (store->name() == name) return *store;
  }
  throw Error(ErrorCode::not_found, "there is no store of this name");
}

}  // namespace oncebox::server

#include "api/hosted_store.hpp"

#include <fmt/format.h>

#include <span>

#include "observe/metrics.hpp"
#include "oncebox/error.hpp"
#include "oncebox/store_set.hpp"

namespace oncebox::server {

namespace {

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
    require_store_name(store.name);
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

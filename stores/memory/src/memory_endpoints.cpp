#include "memory_endpoints.hpp"

namespace oncebox::memory {

std::optional<EndpointList> MemoryEndpoints::do_list(std::optional<std::int64_t> known_version,
                                                     EndpointSecrets secrets) {
  const detail::Lock lock(mutex_);
  if (version_ == known_version) return std::nullopt;
  EndpointList list{.version = version_};
  for (const auto& [name, record] : endpoints_) {
    EndpointRecord& copy = list.endpoints.emplace_back(record);
    if (secrets == EndpointSecrets::leave_out) copy.endpoint.secrets.reset();
  }
  return list;
}

EndpointSaved MemoryEndpoints::do_save(const Endpoint& endpoint, const EndpointOptions& options) {
  const detail::Lock lock(mutex_);
  const auto known = endpoints_.find(endpoint.name);
  const bool is_new = known == endpoints_.end();
  const Endpoint after =
      endpoint_after({.known = is_new ? std::nullopt : std::optional(known->second.endpoint),
                      .count = endpoints_.size()},
                     endpoint, options);
  if (!is_new && after == known->second.endpoint) return EndpointSaved::unchanged;
  ++version_;
  if (is_new) {
    endpoints_.emplace(after.name, EndpointRecord{after});
    return EndpointSaved::created;
  }
  known->second.endpoint = after;
  return EndpointSaved::changed;
}

bool MemoryEndpoints::do_remove(const EndpointName& name, const EndpointOptions& /*options*/) {
  const detail::Lock lock(mutex_);
  const bool removed = endpoints_.erase(name) > 0;
  if (removed) ++version_;
  return removed;
}

std::optional<EndpointNoted> MemoryEndpoints::do_note(const EndpointName& name,
                                                      const EndpointEvent& event) {
  const detail::Lock lock(mutex_);
  const auto known = endpoints_.find(name);
  if (known == endpoints_.end()) return std::nullopt;
  EndpointStatus& status = known->second.status;
  EndpointStatus after = status_after(known->second, event);
  const bool changed = after != status;
  if (changed) {
    status = std::move(after);
    ++version_;
  }
  return EndpointNoted{changed, status};
}

}  // namespace oncebox::memory

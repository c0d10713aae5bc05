#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/endpoint_store.hpp"

namespace oncebox::memory {

class MemoryEndpoints final : public EndpointStore {
 private:
  std::optional<EndpointList> do_list(std::optional<std::int64_t> known_version,
                                      EndpointSecrets secrets) override;
  EndpointSaved do_save(const Endpoint& endpoint, const EndpointOptions& options) override;
  bool do_remove(const EndpointName& name, const EndpointOptions& options) override;
  std::optional<EndpointNoted> do_note(const EndpointName& name,
                                       const EndpointEvent& event) override;

  detail::Mutex mutex_;
  std::int64_t version_ ONCEBOX_GUARDED_BY(mutex_) = 1;
  std::map<EndpointName, EndpointRecord> endpoints_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace oncebox::memory

#include "oncebox/open_store.hpp"

#include <fmt/format.h>

#include "oncebox/error.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/store_url.hpp"

// The one file that knows every backend.
namespace oncebox {

namespace {

std::unique_ptr<Store> open_memory(StoreUrl& url) {
  if (!url.location().empty()) {
    throw Error(ErrorCode::invalid_argument,
                "a memory store has no name or path; write memory: with nothing but parameters");
  }
  memory::Options options;
  const auto take = [&](std::string_view name, std::size_t& value) {
    if (const auto number = url.take_number(name)) value = *number;
  };
  take("max_messages", options.max_messages);
  take("max_bytes", options.max_bytes);
  take("max_keys", options.max_keys);
  take("max_key_bytes", options.max_key_bytes);
  take("max_payload_bytes", options.max_payload_bytes);
  url.require_no_more_parameters();
  return std::make_unique<memory::MemoryStore>(options);
}

}  // namespace

std::unique_ptr<Store> open_store(std::string_view url) {
  StoreUrl parts(url);
  if (parts.scheme() == "memory") return open_memory(parts);
  throw Error(ErrorCode::unsupported,
              fmt::format("this build has no store for {}: URLs; it has: memory", parts.scheme()));
}

}  // namespace oncebox

#pragma once

#include <memory>
#include <string_view>

#include "oncebox/store.hpp"

namespace oncebox {

/// Opens a store by its URL, on the machine's clock:
///
/// | URL | store |
/// |---|---|
/// | `memory:` | in this process; parameters `max_messages`, `max_bytes`, `max_keys`,
/// `max_key_bytes`, `max_payload_bytes` |
///
/// Throws `invalid_argument` for a URL that cannot be read, `unsupported` for a scheme that this
/// build does not have, naming those it has, and whatever the backend throws when it cannot be
/// opened.
[[nodiscard]] std::unique_ptr<Store> open_store(std::string_view url);

}  // namespace oncebox

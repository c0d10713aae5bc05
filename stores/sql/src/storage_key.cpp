#include "oncebox/sql/storage_key.hpp"

#include <algorithm>
#include <string>

#include "oncebox/content_hash.hpp"

namespace oncebox::sql {

namespace {

void append_with_length(std::string& bytes, const std::string& part) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>((part.size() >> static_cast<unsigned>(shift)) & 0xff);
  }
  bytes += part;
}

StorageKey first_half_of_sha256(const std::string& bytes) {
  const std::string digest = sha256(bytes);
  StorageKey key{};
  std::copy_n(digest.begin(), key.size(), key.begin());
  return key;
}

}  // namespace

StorageKey storage_key(const MessageKey& key) {
  std::string bytes;
  bytes.reserve(key.source.str().size() + key.message_id.str().size() + 8);
  append_with_length(bytes, key.source.str());
  append_with_length(bytes, key.message_id.str());
  return first_half_of_sha256(bytes);
}

StorageKey storage_key(const IdempotencyKey& key) {
  std::string bytes;
  append_with_length(bytes, key.str());
  return first_half_of_sha256(bytes);
}

}  // namespace oncebox::sql

#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

namespace oncebox {

enum class HmacAlgorithm { sha1, sha256, sha512 };

/// HMAC (RFC 2104) with one secret, which is kept only as a key that is ready for use. Safe from
/// any thread.
class HmacKey {
 public:
  HmacKey(std::string_view secret, HmacAlgorithm algorithm);
  ~HmacKey();
  HmacKey(HmacKey&&) noexcept;
  HmacKey& operator=(HmacKey&&) noexcept;

  /// The signature, as bytes, of the pieces one after the other.
  [[nodiscard]] std::string sign(std::initializer_list<std::string_view> pieces) const;

 private:
  class Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace oncebox

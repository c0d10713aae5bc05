#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "oncebox/payload.hpp"

namespace oncebox {

/// A digest of a message's content together with the name of its algorithm, by which a redelivery
/// with other content under the same id is noticed. Only digests of the same algorithm are
/// compared.
class ContentHash {
 public:
  static constexpr std::string_view kSha256 = "sha256";
  static constexpr std::size_t kMaxAlgorithmLength = 32;
  static constexpr std::size_t kMaxDigestBytes = 64;

  /// Takes a digest that somebody else made. The algorithm is 1 to 32 of [a-z0-9-]; the digest 1 to
  /// 64 bytes. Throws `invalid_argument`.
  ContentHash(std::string algorithm, std::string digest);

  /// Hashes the raw bytes of a payload; never a re-serialised form.
  [[nodiscard]] static ContentHash sha256_of(const Payload& payload);

  [[nodiscard]] const std::string& algorithm() const noexcept { return algorithm_; }
  [[nodiscard]] const std::string& digest() const noexcept { return digest_; }
  [[nodiscard]] std::string digest_hex() const;

  [[nodiscard]] bool comparable_with(const ContentHash& other) const noexcept {
    return algorithm_ == other.algorithm_;
  }

  friend bool operator==(const ContentHash&, const ContentHash&) = default;

 private:
  std::string algorithm_;
  std::string digest_;
};

/// What to do with a message that is enqueued without a hash.
enum class MissingHash {
  sha256_of_payload,  ///< compute it, so that other content under a known id is noticed
  leave,              ///< store none: content is compared, but a change is never a mismatch
};

/// The SHA-256 digest of any bytes, 32 bytes long.
[[nodiscard]] std::string sha256(std::string_view bytes);

/// Lower-case hexadecimal digits of any bytes.
[[nodiscard]] std::string to_hex(std::string_view bytes);

}  // namespace oncebox

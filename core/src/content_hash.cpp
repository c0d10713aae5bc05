#include "oncebox/content_hash.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <memory>

#include "oncebox/error.hpp"

namespace oncebox {

namespace {

struct MdDeleter {
  void operator()(EVP_MD* md) const { EVP_MD_free(md); }
};

// Fetching the algorithm costs more than hashing a small payload, so it is fetched once.
const EVP_MD* sha256_algorithm() {
  static const std::unique_ptr<EVP_MD, MdDeleter> algorithm(
      EVP_MD_fetch(nullptr, "SHA256", nullptr));
  if (!algorithm) throw Error(ErrorCode::unsupported, "OpenSSL offers no SHA-256 here");
  return algorithm.get();
}

bool is_algorithm_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

}  // namespace

std::string sha256(std::string_view bytes) {
  std::string digest(32, '\0');
  const EVP_MD* algorithm = sha256_algorithm();
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
                 algorithm, nullptr) != 1) {
    throw Error(ErrorCode::internal, "OpenSSL could not compute a SHA-256 digest");
  }
  return digest;
}

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 0x0F];
  }
  return hex;
}

ContentHash::ContentHash(std::string algorithm, std::string digest)
    : algorithm_(std::move(algorithm)), digest_(std::move(digest)) {
  bool valid = !algorithm_.empty() && algorithm_.size() <= kMaxAlgorithmLength;
  for (const char c : algorithm_) valid = valid && is_algorithm_character(c);
  if (!valid) {
    throw Error(ErrorCode::invalid_argument,
                "a hash algorithm is named by 1 to 32 of a-z, 0-9 and '-', for example sha256");
  }
  if (digest_.empty() || digest_.size() > kMaxDigestBytes) {
    throw Error(ErrorCode::invalid_argument, fmt::format("a content hash has 1 to {} bytes, not {}",
                                                         kMaxDigestBytes, digest_.size()));
  }
}

ContentHash ContentHash::sha256_of(const Payload& payload) {
  return ContentHash(std::string(kSha256), sha256(payload.bytes()));
}

std::string ContentHash::digest_hex() const { return to_hex(digest_); }

}  // namespace oncebox

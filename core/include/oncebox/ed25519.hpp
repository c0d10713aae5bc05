#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace oncebox {

/// Signs with Ed25519 (RFC 8032). Safe from any thread.
class Ed25519SecretKey {
 public:
  /// Takes the 32 bytes of a secret key, alone or with the 32 of its public key behind them, as
  /// many programs write it. Throws `invalid_argument` for anything else.
  explicit Ed25519SecretKey(std::string_view bytes);
  ~Ed25519SecretKey();
  Ed25519SecretKey(Ed25519SecretKey&&) noexcept;
  Ed25519SecretKey& operator=(Ed25519SecretKey&&) noexcept;

  /// 64 bytes, always the same for one message.
  [[nodiscard]] std::string sign(std::string_view message) const;
  /// 32 bytes.
  [[nodiscard]] std::string public_key() const;

 private:
  class Impl;
  std::unique_ptr<const Impl> impl_;
};

/// Checks what was signed with the secret key that belongs to it. Safe from any thread.
class Ed25519PublicKey {
 public:
  /// Throws `invalid_argument` for anything but 32 bytes.
  explicit Ed25519PublicKey(std::string_view bytes);
  ~Ed25519PublicKey();
  Ed25519PublicKey(Ed25519PublicKey&&) noexcept;
  Ed25519PublicKey& operator=(Ed25519PublicKey&&) noexcept;

  /// False for whatever is no signature of this message by this key.
  [[nodiscard]] bool verifies(std::string_view message, std::string_view signature) const;

 private:
  class Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace oncebox

#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace oncebox::http {

/// Stands between clients and a service, and can cut a request on its way. While no cut is armed it
/// passes everything on.
class CuttingProxy {
 public:
  explicit CuttingProxy(std::uint16_t service_port);
  ~CuttingProxy();
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  [[nodiscard]] std::string url() const;

  /// Cuts the next request at this step, and then everything until `disarm`: 0 is before its first
  /// byte has gone on, 1 between its head and its body, 2 before its last byte. A request without
  /// body has no step 1.
  void cut_at(int step);
  /// True when the cut has struck.
  bool disarm();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::http

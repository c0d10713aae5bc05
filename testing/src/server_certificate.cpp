#include "server_certificate.hpp"

#include <filesystem>
#include <vector>

namespace oncebox::testing {

void make_server_certificate(const ServerFolder& folder, const std::string& data_folder) {
  const std::string ca_certificate = data_folder + "/" + kCaCertificate;
  const std::string ca_key = folder.file("ca.key");
  const std::vector<std::string> request{
      "openssl", "req",   "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
      "-nodes",  "-days", "1"};

  std::vector<std::string> authority = request;
  authority.insert(authority.end(),
                   {"-subj", "/CN=Oncebox test authority", "-addext",
                    "keyUsage=critical,keyCertSign", "-keyout", ca_key, "-out", ca_certificate});
  folder.run_well(authority);

  std::vector<std::string> server = request;
  server.insert(
      server.end(),
      {"-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext",
       "basicConstraints=critical,CA:FALSE", "-CA", ca_certificate, "-CAkey", ca_key, "-keyout",
       data_folder + "/server.key", "-out", data_folder + "/server.crt"});
  folder.run_well(server);
  std::filesystem::remove(ca_key);
}

}  // namespace oncebox::testing

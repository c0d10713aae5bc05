#include "http/router.hpp"

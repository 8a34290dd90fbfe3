# SPDX-License-Identifier: Apache-2.0
# web_hash.cmake : a hash of everything that the report page's bundle is made of, in the folder `web`.
#
#   cmake -DWEB=web -DOUT=FILE -P web_hash.cmake      writes it to FILE
#
# Included, it gives the function web_hash(WEB OUT).
function(web_hash web out)
  file(GLOB_RECURSE files RELATIVE ${web} ${web}/*.js ${web}/*.mjs ${web}/package-lock.json)
  list(FILTER files EXCLUDE REGEX "node_modules/|^bundle/")
  list(SORT files)
  set(all "")
  foreach(file ${files})
    file(SHA256 ${web}/${file} hash)
    string(APPEND all "${hash} ${file}\n")
  endforeach()
  string(SHA256 hash "${all}")
  set(${out} ${hash} PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  get_filename_component(WEB ${WEB} ABSOLUTE)
  web_hash(${WEB} hash)
  file(WRITE ${OUT} "${hash}\n")
endif()

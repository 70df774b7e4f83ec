# soma::utf8proc, if the library is found. Debian's package has no CMake files, only pkg-config's, and newer releases
# have a package of their own. Used by soma itself and by the installed package.
if(NOT TARGET soma::utf8proc)
  if(NOT TARGET utf8proc::utf8proc)
    find_package(utf8proc CONFIG QUIET)
  endif()
  if(TARGET utf8proc::utf8proc)
    add_library(soma::utf8proc INTERFACE IMPORTED GLOBAL)
    set_target_properties(soma::utf8proc PROPERTIES INTERFACE_LINK_LIBRARIES utf8proc::utf8proc)
  else()
    find_path(SOMA_UTF8PROC_INCLUDE_DIR utf8proc.h DOC "folder of utf8proc.h")
    find_library(SOMA_UTF8PROC_LIBRARY utf8proc DOC "the library utf8proc")
    mark_as_advanced(SOMA_UTF8PROC_INCLUDE_DIR SOMA_UTF8PROC_LIBRARY)
    if(SOMA_UTF8PROC_INCLUDE_DIR AND SOMA_UTF8PROC_LIBRARY)
      add_library(soma::utf8proc INTERFACE IMPORTED GLOBAL)
      set_target_properties(soma::utf8proc PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${SOMA_UTF8PROC_INCLUDE_DIR}"
        INTERFACE_LINK_LIBRARIES "${SOMA_UTF8PROC_LIBRARY}")
    endif()
  endif()
endif()
